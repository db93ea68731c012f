#include "saddle/analysis/registry.hpp"

#include <algorithm>
#include <filesystem>

#include "saddle/base/error.hpp"
#include "saddle/base/text.hpp"
#include "saddle/io/safetensors.hpp"

namespace saddle::analysis {

namespace {

std::string renamed(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

[[noreturn]] void throw_renamed(const Error& error, const std::string& from, const std::string& to) {
  const std::string message = renamed(error.what(), from, to), hint = renamed(error.hint(), from, to);
  if (dynamic_cast<const InvalidArgument*>(&error) != nullptr) throw InvalidArgument(message, hint);
  if (const auto* other = dynamic_cast<const NotSupported*>(&error))
    throw NotSupported(message, other->refusals(), hint);
  if (dynamic_cast<const DataError*>(&error) != nullptr) throw DataError("", 0, 0, message, hint);
  throw IoError(message, hint);
}

Result analyze_plain(const Analysis& analysis, const std::string& file, Options& options) {
  if (!std::filesystem::exists(file)) throw IoError("there is no " + file, "is the name right?");
  if (analysis.on_file) return analysis.on_file(file, options);
  if (!analysis.takes_files())
    throw NotSupported("'" + analysis.name + "' takes no files", {}, "give the folder of a run");
  if (!file.ends_with(".safetensors"))
    throw InvalidArgument(
        "'" + analysis.name + "' looks into trained models and into tensors, and " + file + " is neither",
        "give the folder of a run, or a .safetensors file");
  return analyze_tensors(analysis, io::read_safetensors(file), file, options);
}

}  // namespace

const std::vector<const Analysis*>& all() {
  static const std::vector<const Analysis*> list = [] {
    std::vector<const Analysis*> sorted = generated_list();
    std::sort(sorted.begin(), sorted.end(), [](const Analysis* a, const Analysis* b) { return a->name < b->name; });
    return sorted;
  }();
  return list;
}

const Analysis& find(std::string_view name) {
  std::string wanted(name);
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  std::vector<std::string> names;
  for (const Analysis* analysis : all()) {
    if (analysis->name == wanted) return *analysis;
    names.push_back(analysis->name);
  }
  const std::string close = nearest(wanted, names);
  throw InvalidArgument("unknown analysis '" + std::string(name) + "', known are " + join(names),
                        close.empty() ? "saddle analyze shows all analyses" : "did you mean '" + close + "'?");
}

std::vector<mechanisms::GoldenCheck> golden_checks() {
  auto checks = mechanisms::golden_checks();
  for (const Analysis* analysis : all()) checks.insert(checks.end(), analysis->golden.begin(), analysis->golden.end());
  return checks;
}

Result analyze_file(const Analysis& analysis, const std::string& file, Options& options, const std::string& packed) {
  if (packed.empty()) return analyze_plain(analysis, file, options);
  try {
    Result result = analyze_plain(analysis, file, options);
    result.json = renamed(result.json, file, packed);
    for (std::string& finding : result.findings) finding = renamed(finding, file, packed);
    return result;
  } catch (const Error& error) {
    throw_renamed(error, file, packed);
  }
}

Result analyze_tensors(const Analysis& analysis, const TensorFile& file, const std::string& name, Options& options) {
  if (analysis.on_tensors) return analysis.on_tensors(file, name, options);
  if (!analysis.takes_tensors())
    throw NotSupported("'" + analysis.name + "' takes no tensors", {}, "its page says what it takes");
  return analysis.on_model(probed_model(file, name), options);
}

std::string_view page_of(const Analysis& analysis) {
  const auto& texts = generated_texts();
  const auto found =
      std::find_if(texts.begin(), texts.end(), [&](const AnalysisText& text) { return text.name == analysis.name; });
  if (found == texts.end()) throw InvalidArgument("analysis '" + analysis.name + "' has no page");
  return found->readme;
}

}  // namespace saddle::analysis
