// Exports every case into a folder, with inputs of other batch sizes than were traced and the outputs that belong to
// them. cases.json says which file holds what.
#include <fmt/format.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "saddle/base/error.hpp"
#include "tests/onnx/cases.hpp"

namespace saddle::nn::onnx_cases {
namespace {

using nlohmann::json;

class Folder {
 public:
  explicit Folder(const std::filesystem::path& path) : path_(path) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }

  // Writes a tensor; how to read it again.
  json save(const std::string& name, const torch::Tensor& tensor) {
    const torch::Tensor data = tensor.detach().contiguous();
    const std::string file = fmt::format("{}.bin", count_++);
    std::ofstream(path_ / file, std::ios::binary)
        .write(static_cast<const char*>(data.data_ptr()), static_cast<std::streamsize>(data.nbytes()));
    const char* const type = data.scalar_type() == torch::kBool    ? "bool"
                             : data.scalar_type() == torch::kInt64 ? "int64"
                                                                   : "float32";
    return {{"name", name}, {"type", type}, {"dims", data.sizes().vec()}, {"file", file}};
  }
  json save(const std::vector<std::string>& names, const std::vector<torch::Tensor>& tensors) {
    json all = json::array();
    for (std::size_t i = 0; i < names.size(); ++i) all.push_back(save(names[i], tensors.at(i)));
    return all;
  }
  std::filesystem::path model() { return path_ / fmt::format("{}.onnx", count_++); }
  void finish(const json& cases) { std::ofstream(path_ / "cases.json") << cases.dump(1); }

 private:
  std::filesystem::path path_;
  int count_ = 0;
};

json write(const Case& one, Folder& folder) {
  const auto path = folder.model();
  std::vector<OnnxInput> inputs;
  const auto examples = one.sample(1);
  for (std::size_t i = 0; i < examples.size(); ++i)
    inputs.push_back({one.inputs[i], examples[i], one.batch_dimensions.empty() ? 0 : one.batch_dimensions[i]});
  OnnxOptions options;
  options.module = one.module.get();
  options.outputs = one.outputs;
  export_onnx(one.function, inputs, options, path);

  if (one.module) one.module->eval();
  const torch::NoGradGuard no_gradients;
  json runs = json::array();
  for (const Index B : {1, 4}) {
    const auto tensors = one.sample(B);
    runs.push_back(
        {{"inputs", folder.save(one.inputs, tensors)}, {"outputs", folder.save(one.outputs, one.function(tensors))}});
  }
  return {{"name", one.name}, {"model", path.filename()}, {"runs", runs}};
}

int run(const std::filesystem::path& path) {
  torch::manual_seed(1);
  Folder folder(path);
  json written = json::array();
  int failed = 0;
  for (const auto& list : {attention_cases, module_cases, model_cases})
    for (const Case& one : list()) try {
        written.push_back(write(one, folder));
      } catch (const std::exception& error) {
        std::cerr << one.name << ": " << error.what() << '\n';
        ++failed;
      }
  folder.finish(written);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace saddle::nn::onnx_cases

int main(int count, char** arguments) {
  if (count == 2) return saddle::nn::onnx_cases::run(arguments[1]);
  std::cerr << "usage: onnx_cases <folder>\n";
  return 2;
}
