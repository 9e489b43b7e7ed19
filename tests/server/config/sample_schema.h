#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/config/settings/schema.h"
#include "sluice/v1/settings.pb.h"

namespace sluice::server::config {

// Builds message types with settings of a test's choice.
class SampleMessage {
 public:
  using Type = google::protobuf::FieldDescriptorProto::Type;
  using Field = google::protobuf::FieldDescriptorProto;

  SampleMessage() {
    file_.set_name("sample.proto");
    file_.set_syntax("proto3");
    file_.add_dependency("sluice/v1/settings.proto");
    file_.add_message_type()->set_name("Sample");
  }

  // A field of section `section`, which is made at its first use. Fill in the option that it
  // returns.
  v1::Setting* Add(const std::string& section, const std::string& name, Type type,
                   Field::Label label = Field::LABEL_OPTIONAL) {
    const std::string type_name = "Section_" + section;
    google::protobuf::DescriptorProto* message = nullptr;
    for (auto& other : *file_.mutable_message_type()) {
      if (other.name() == type_name) message = &other;
    }
    if (message == nullptr) {
      Field* field = AddField(file_.mutable_message_type(0), section, Field::TYPE_MESSAGE);
      field->set_type_name(".Section_" + section);
      field->mutable_options()->MutableExtension(v1::section)->set_title("Section " + section);
      message = file_.add_message_type();
      message->set_name(type_name);
    }
    Field* field = AddField(message, name, type);
    field->set_label(label);
    return field->mutable_options()->MutableExtension(v1::setting);
  }

  google::protobuf::FileDescriptorProto* file() { return &file_; }

  absl::StatusOr<Schema> Build() {
    pool_ = std::make_unique<google::protobuf::DescriptorPool>(
        google::protobuf::DescriptorPool::generated_pool());
    const auto* file = pool_->BuildFile(file_);
    if (file == nullptr) return engine::Internal("the sample is no valid file");
    return Schema::Of(file->message_type(0));
  }

 private:
  static Field* AddField(google::protobuf::DescriptorProto* message, const std::string& name,
                         Type type) {
    Field* field = message->add_field();
    field->set_name(name);
    field->set_number(message->field_size());
    field->set_type(type);
    field->set_label(Field::LABEL_OPTIONAL);
    return field;
  }

  google::protobuf::FileDescriptorProto file_;
  std::unique_ptr<google::protobuf::DescriptorPool> pool_;
};

// One setting of each kind, with each option: web.{port, host, body, wait, share, open, mode, most,
// few, names} and door.{key, pin, port}.
inline const Schema& SampleSchema() {
  using Field = google::protobuf::FieldDescriptorProto;
  static SampleMessage message;
  static const Schema schema = [] {
    auto* port = message.Add("web", "port", Field::TYPE_INT32);
    port->set_flag("web-port");
    port->set_letter("p");
    port->set_default_("80");
    port->set_min("0");
    port->set_max("65535");
    auto* host = message.Add("web", "host", Field::TYPE_STRING);
    host->set_flag("host");
    host->set_required(true);
    auto* body = message.Add("web", "body", Field::TYPE_INT64);
    body->set_default_("8MiB");
    body->set_min("1KiB");
    body->set_max("1GiB");
    body->set_unit(v1::UNIT_BYTES);
    auto* wait = message.Add("web", "wait", Field::TYPE_INT64);
    wait->set_flag("wait");
    wait->set_default_("30s");
    wait->set_min("10ms");
    wait->set_max("1h");
    wait->set_unit(v1::UNIT_MILLISECONDS);
    auto* share = message.Add("web", "share", Field::TYPE_DOUBLE);
    share->set_default_("0.5");
    share->set_min("0");
    share->set_max("1");
    message.Add("web", "open", Field::TYPE_BOOL)->set_flag("open");
    auto* mode = message.Add("web", "mode", Field::TYPE_STRING);
    mode->set_default_("fast");
    mode->add_allowed("fast");
    mode->add_allowed("exact");
    auto* most = message.Add("web", "most", Field::TYPE_INT32);
    most->set_default_("10");
    most->set_at_least("web.few");
    most->set_multiple_of(5);
    auto* few = message.Add("web", "few", Field::TYPE_INT32);
    few->set_default_("2");
    message.Add("web", "names", Field::TYPE_STRING, Field::LABEL_REPEATED)->set_flag("names");
    auto* key = message.Add("door", "key", Field::TYPE_STRING);
    key->set_secret(true);
    auto* pin = message.Add("door", "pin", Field::TYPE_INT32);
    pin->set_secret(true);
    pin->set_max("9999");
    message.Add("door", "port", Field::TYPE_INT32)->set_max("100");
    auto built = message.Build();
    EXPECT_TRUE(built.ok()) << engine::Message(built.status());
    return *std::move(built);
  }();
  return schema;
}

}  // namespace sluice::server::config
