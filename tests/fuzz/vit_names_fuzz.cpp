// Any tensors either cannot be renamed, with a saddle::Error, or come back from the other names as they were.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <span>

#include "saddle/base/error.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/io/vit_names.hpp"

namespace {

using saddle::TensorFile;
using saddle::io::convert_vit;
using saddle::io::VitConversion;
using saddle::io::VitNames;

void require(bool ok, const char* what) {
  if (ok) return;
  std::cerr << what << '\n';
  std::abort();
}

void check(const TensorFile& file, VitNames to, const char* prefix) {
  VitConversion there{to, prefix}, back{to == VitNames::timm ? VitNames::hugging_face : VitNames::timm, prefix};
  TensorFile other;
  try {
    other = convert_vit(file, there);
  } catch (const saddle::Error&) {
    return;
  }
  // From here on nothing may throw. Only the pooler of Hugging Face stays behind.
  const TensorFile again = convert_vit(other, back);
  if (to == VitNames::hugging_face) require(again.tensors == file.tensors, "timm's tensors came back changed");
  require(convert_vit(again, there).tensors == other.tensors, "the second way there differs from the first");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  TensorFile file;
  try {
    file = saddle::io::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
  } catch (const saddle::Error&) {
    return 0;
  }
  for (const char* prefix : {"vit.", ""})
    for (const VitNames to : {VitNames::timm, VitNames::hugging_face}) check(file, to, prefix);
  return 0;
}
