# The services' contracts. proto_health is the standard health protocol, under its standard name and path.
sluice_proto(proto_service FILES sluice/v1/generate.proto GRPC)
sluice_proto(proto_health FILES grpc/health/v1/health.proto GRPC)
# Details of an error, as google.rpc.* has them on the wire.
sluice_proto(proto_error_details FILES sluice/v1/error_details.proto)

add_subdirectory(examples/cpp)
