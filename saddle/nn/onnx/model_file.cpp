#include "saddle/nn/onnx/model_file.hpp"

#include <fmt/format.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <limits>

#include "saddle/base/error.hpp"
#include "saddle/version.hpp"

namespace saddle::nn::onnx {

struct ModelFile::Parts {
  ::onnx::ModelProto model;
};

namespace {

void put_type(const TensorType& type, ::onnx::ValueInfoProto& info) {
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(static_cast<int>(type.element));
  auto* shape = tensor->mutable_shape();
  for (const Index size : type.sizes) {
    auto* dim = shape->add_dim();
    if (size >= 0) dim->set_dim_value(size);
    if (size == -1) dim->set_dim_param("batch");
  }
}

struct AttributeWriter {
  ::onnx::AttributeProto& proto;

  void operator()(Index value) const {
    proto.set_type(::onnx::AttributeProto::INT);
    proto.set_i(value);
  }
  void operator()(double value) const {
    proto.set_type(::onnx::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(value));
  }
  void operator()(const std::string& value) const {
    proto.set_type(::onnx::AttributeProto::STRING);
    proto.set_s(value);
  }
  void operator()(const std::vector<Index>& values) const {
    proto.set_type(::onnx::AttributeProto::INTS);
    for (const Index value : values) proto.add_ints(value);
  }
};

}  // namespace

ModelFile::ModelFile() : parts_(std::make_unique<Parts>()) {
  ::onnx::ModelProto& model = parts_->model;
  model.set_ir_version(ir_version);
  model.set_producer_name("saddle");
  model.set_producer_version(SADDLE_VERSION);
  auto* imported = model.add_opset_import();
  imported->set_domain("");
  imported->set_version(opset);
  model.mutable_graph()->set_name("saddle");
}

ModelFile::~ModelFile() = default;

void ModelFile::set_name(const std::string& name) { parts_->model.mutable_graph()->set_name(name); }

void ModelFile::set_property(const std::string& key, const std::string& value) {
  auto* property = parts_->model.add_metadata_props();
  property->set_key(key);
  property->set_value(value);
}

void ModelFile::add_input(const std::string& name, const TensorType& type) {
  auto* info = parts_->model.mutable_graph()->add_input();
  info->set_name(name);
  put_type(type, *info);
}

void ModelFile::add_output(const std::string& name, const TensorType& type) {
  auto* info = parts_->model.mutable_graph()->add_output();
  info->set_name(name);
  put_type(type, *info);
}

void ModelFile::add_initializer(const std::string& name, const TensorType& type, std::span<const std::byte> bytes) {
  auto* tensor = parts_->model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(static_cast<int>(type.element));
  for (const Index size : type.sizes) tensor->add_dims(size);
  tensor->set_raw_data(bytes.data(), bytes.size());
}

void ModelFile::add_node(const std::string& op, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, const Attributes& attributes) {
  auto* node = parts_->model.mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_name(outputs.front());
  for (const std::string& name : inputs) node->add_input(name);
  for (const std::string& name : outputs) node->add_output(name);
  for (const auto& [name, value] : attributes) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    std::visit(AttributeWriter{*attribute}, value);
  }
}

std::string ModelFile::checked_bytes() {
  ::onnx::ModelProto& model = parts_->model;
  if (model.ByteSizeLong() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw NotSupported(
        fmt::format("[onnx] the model takes {} bytes: a file of one piece ends at 2 GB, and weights in "
                    "files of their own are not written",
                    model.ByteSizeLong()));
  try {
    ::onnx::checker::check_model(model);
    const ::onnx::ShapeInferenceOptions strict(true, 1, true);
    ::onnx::shape_inference::InferShapes(model, ::onnx::OpSchemaRegistry::Instance(), strict);
  } catch (const std::exception& finding) {
    throw NotSupported(fmt::format("[onnx] the checker refuses the graph: {}", finding.what()));
  }
  model.mutable_graph()->clear_value_info();
  return model.SerializeAsString();
}

}  // namespace saddle::nn::onnx
