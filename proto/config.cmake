# What can be told to `sluiced serve` and `sluiced simulate`: messages whose fields carry the options of settings.proto.
sluice_proto(proto_config FILES sluice/v1/settings.proto sluice/v1/config.proto sluice/v1/simulate.proto)
