#include "saddle/io/safetensors.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <cstdlib>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "places.hpp"
#include "saddle/base/error.hpp"

namespace saddle::io {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

// A file from its parts, right or wrong.
Bytes file_of(const std::string& header, std::size_t data_size, std::uint64_t header_size) {
  Bytes bytes(8 + header.size() + data_size, std::byte{1});
  std::memcpy(bytes.data(), &header_size, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}
Bytes file_of(const std::string& header, std::size_t data_size = 0) {
  return file_of(header, data_size, header.size());
}

bool same(const TensorFile& a, const TensorFile& b) { return a.tensors == b.tensors && a.metadata == b.metadata; }

TensorFile small_file() {
  TensorFile file;
  Tensor values(DType::f64, {2, 3}), mask(DType::boolean, {3}), half(DType::bf16, {});
  for (Index i = 0; i < 6; ++i) values.set(i, 0.5 * static_cast<double>(i));
  mask.set(1, 1);
  half.set(0, 1.5);
  file.tensors = {{"in.q", values}, {"mask", mask}, {"a", half}, {"none", Tensor(DType::i32, {0, 4})}};
  file.metadata = {{"mechanism", "softmax"}, {"scale", "0.25"}};
  return file;
}

template <class Error>
std::string message_of(const Bytes& bytes) {
  try {
    parse_safetensors(bytes, "x.safetensors");
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("wrong type of error: ") + error.what();
  }
  return "no error";
}

class SafetensorsFiles : public ::testing::Test {
 protected:
  SafetensorsFiles() {
    std::string name = (fs::path(::testing::TempDir()) / "saddle-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~SafetensorsFiles() override { fs::remove_all(folder); }
  fs::path folder;
};

TEST(Safetensors, ReadsWhatItWrites) {
  const TensorFile file = small_file();
  const Bytes bytes = to_safetensors(file);
  EXPECT_TRUE(same(parse_safetensors(bytes, "x"), file));
  EXPECT_EQ(bytes, to_safetensors(file));
}

TEST(Safetensors, BytesAreTheDocumentedOnes) {
  TensorFile file;
  file.tensors = {{"b", Tensor(DType::u8, {3})}, {"c", Tensor(DType::f32, {1})}, {"a", Tensor(DType::u8, {})}};
  file.metadata = {{"k", "\"v\"\n"}};
  const std::string header = R"({"__metadata__":{"k":"\"v\"\n"},)"
                             R"("c":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("a":{"dtype":"U8","shape":[],"data_offsets":[4,5]},)"
                             R"("b":{"dtype":"U8","shape":[3],"data_offsets":[5,8]}})";
  const Bytes bytes = to_safetensors(file);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(text.substr(8, header.size()), header);
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  EXPECT_EQ(text.substr(8 + header.size(), padded - header.size()), std::string(padded - header.size(), ' '));
  EXPECT_EQ(text.size(), 8 + padded + 8);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length, padded);
}

TEST(Safetensors, EmptyFilesAndPadding) {
  EXPECT_TRUE(same(parse_safetensors(to_safetensors({}), "x"), {}));
  EXPECT_TRUE(same(parse_safetensors(file_of("{}"), "x"), {}));
  EXPECT_TRUE(same(parse_safetensors(file_of(R"({"__metadata__":{}}     )"), "x"), {}));
}

// A header of odd length puts doubles at odd addresses.
TEST(Safetensors, UnalignedTensors) {
  Bytes bytes = file_of(R"({"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                        R"("x":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}} )",
                        9);
  const double value = -2.25;
  std::memcpy(bytes.data() + bytes.size() - 8, &value, 8);
  EXPECT_EQ(parse_safetensors(bytes, "x").tensors.at("x").at(0), value);
}

TEST(Safetensors, EmptyTensorsMayShareAnOffset) {
  const auto file = parse_safetensors(file_of(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                              R"("e":{"dtype":"F64","shape":[0,3],"data_offsets":[0,0]},)"
                                              R"("f":{"dtype":"F64","shape":[0],"data_offsets":[2,2]}})",
                                              2),
                                      "x");
  EXPECT_EQ(file.tensors.at("e").shape(), (Shape{0, 3}));
  EXPECT_EQ(file.tensors.at("b").at(1), 1);
}

Tensor arbitrary_tensor() {
  static const std::vector<DType> all{DType::f64, DType::f32, DType::bf16,   DType::i64,
                                      DType::i32, DType::u8,  DType::boolean};
  Tensor tensor(*rc::gen::elementOf(all),
                *rc::gen::resize(4, rc::gen::container<Shape>(rc::gen::inRange<Index>(0, 4))));
  const auto bytes =
      *rc::gen::container<std::vector<std::uint8_t>>(tensor.bytes().size(), rc::gen::arbitrary<std::uint8_t>());
  for (std::size_t i = 0; i < bytes.size(); ++i) tensor.bytes()[i] = std::byte{bytes[i]};
  return tensor;
}

std::string arbitrary_text() {
  static const std::vector<std::string> letters{"a",
                                                "B",
                                                ".",
                                                "\"",
                                                "\\",
                                                "\n",
                                                "/",
                                                " ",
                                                "ä",
                                                "核",
                                                "😀",
                                                "{",
                                                "}",
                                                ",",
                                                ":",
                                                "\t",
                                                "\x7f",
                                                "\x01",
                                                std::string(1, '\0')};
  std::string text;
  for (const auto& letter : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(letters))) text += letter;
  return text;
}

RC_GTEST_PROP(Safetensors, RoundTripOfRandomFiles, ()) {
  TensorFile file;
  for (int i = *rc::gen::inRange(0, 6); i > 0; --i) file.tensors[arbitrary_text()] = arbitrary_tensor();
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) file.metadata[arbitrary_text()] = arbitrary_text();
  const Bytes bytes = to_safetensors(file);
  const TensorFile back = parse_safetensors(bytes, "x");
  RC_ASSERT(same(back, file));
  RC_ASSERT(to_safetensors(back) == bytes);
}

// A flipped byte changes the contents or is noticed; it never crashes.
RC_GTEST_PROP(Safetensors, DamagedFilesThrowOrParse, ()) {
  Bytes bytes = to_safetensors(small_file());
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  bytes[at] = std::byte{*rc::gen::arbitrary<std::uint8_t>()};
  try {
    const TensorFile file = parse_safetensors(bytes, "x");
    RC_ASSERT(same(parse_safetensors(to_safetensors(file), "y"), file));
  } catch (const Error&) {
  }
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const Bytes bytes = to_safetensors(small_file());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly this size, so that the address sanitizer sees a read past its end.
    const Bytes part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(parse_safetensors(part, "x"), DataError) << size << " of " << bytes.size() << " bytes";
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_THROW(parse_safetensors(longer, "x"), DataError);
}

// Each broken rule gives a DataError whose message has all the given parts.
struct Broken {
  std::string header;
  std::size_t data_size;
  std::vector<std::string> parts;
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.header; }

class BrokenHeader : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenHeader, SaysWhatIsWrongAndWhere) {
  const Broken& broken = GetParam();
  const std::string message = message_of<DataError>(file_of(broken.header, broken.data_size));
  for (const auto& part : broken.parts) EXPECT_NE(message.find(part), message.npos) << part << "\nin: " << message;
  EXPECT_EQ(message.find("x.safetensors: "), 0u) << message;
}

// The fields of a tensor, in short.
std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
const std::string f32 = R"("F32")";
const std::string good = tensor(f32, "[2]", "[0,8]");

const Broken broken_headers[] = {
    // the text
    {"", 0, {"begin with '{'"}},
    {"   ", 0, {"begin with '{'"}},
    {" {}", 0, {"begin with '{'"}},
    {"\xEF\xBB\xBF{}", 0, {"begin with '{'"}},
    {"[]", 0, {"begin with '{'"}},
    {"{}\n", 0, {"spaces"}},
    {"{} \t ", 0, {"spaces"}},
    {std::string("{}\0}", 4), 0, {"zero byte at byte 10"}},
    {"{}{}", 0, {"not valid JSON"}},
    {"{} x}", 0, {"not valid JSON"}},
    {R"({"bad":)" + good, 8, {"not valid JSON", R"("bad")"}},
    {R"({"bad":)" + good + ",}", 8, {"not valid JSON", R"("bad")"}},
    {"{\"bad\xff\":" + good + "}", 8, {"not valid JSON at byte", "UTF-8"}},
    {"{\"bad\":" + tensor("\"F\xC0\xAF\"", "[2]", "[0,8]") + "}", 8, {"UTF-8", R"("bad")"}},
    {R"({"bad\ud800":)" + good + "}", 8, {"not valid JSON", "surrogate"}},
    // keys
    {R"({"bad":)" + good + R"(,"bad":)" + good + "}", 8, {R"(tensor "bad" appears twice)"}},
    {R"({"bad":)" + good + R"(,"b\u0061d":)" + good + "}", 8, {R"(tensor "bad" appears twice)"}},
    {R"({"bad":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, {R"("bad")", "dtype twice"}},
    {R"({"bad":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", 8, {R"("bad")", "shape twice"}},
    {R"({"bad":{"dtype":"F32","shape":[],"data_offsets":[0,4],"data_offsets":[0,4]}})",
     4,
     {R"("bad")", "offsets twice"}},
    {R"({"bad":{"shape":[2],"data_offsets":[0,8]}})", 8, {R"("bad" has no dtype)"}},
    {R"({"bad":{"dtype":"F32","data_offsets":[0,8]}})", 8, {R"("bad" has no shape)"}},
    {R"({"bad":{"dtype":"F32","shape":[2]}})", 8, {R"("bad" has no data_offsets)"}},
    {R"({"bad":{}})", 0, {R"("bad" has no dtype)"}},
    {R"({"bad":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})",
     8,
     {R"("bad")", R"("more")", "only dtype"}},
    // kinds of values
    {R"({"bad":null})", 0, {R"("bad" is null)", "object"}},
    {R"({"bad":[]})", 0, {R"("bad" is an array)", "object"}},
    {R"({"bad":"F32"})", 0, {R"("bad" is "F32")", "object"}},
    {R"({"bad":)" + tensor("32", "[2]", "[0,8]") + "}", 8, {R"("bad" has 32 in its dtype)", "string"}},
    {R"({"bad":)" + tensor(R"(["F32"])", "[2]", "[0,8]") + "}", 8, {R"("bad" has an array in its dtype)"}},
    {R"({"bad":)" + tensor(f32, "2", "[0,8]") + "}", 8, {R"("bad" has 2 in its shape)", "array"}},
    {R"({"bad":)" + tensor(f32, "{}", "[0,8]") + "}", 8, {R"("bad" has an object in its shape)"}},
    {R"({"bad":)" + tensor(f32, "[[2]]", "[0,8]") + "}", 8, {R"("bad" has an array in its shape)"}},
    {R"({"bad":)" + tensor(f32, R"(["2"])", "[0,8]") + "}", 8, {R"("bad" has "2" in its shape)"}},
    {R"({"bad":)" + tensor(f32, "[true]", "[0,8]") + "}", 8, {R"("bad" has true in its shape)"}},
    {R"({"bad":)" + tensor(f32, "[-2]", "[0,8]") + "}", 8, {R"("bad" has -2 in its shape)", "from 0"}},
    {R"({"bad":)" + tensor(f32, "[2.0]", "[0,8]") + "}", 8, {R"("bad" has 2.0 in its shape)"}},
    {R"({"bad":)" + tensor(f32, "[2]", "[0,8e0]") + "}", 8, {R"("bad" has 8e0 in its data_offsets)"}},
    {R"({"bad":)" + tensor(f32, "[2]", "[-8,0]") + "}", 8, {R"("bad" has -8 in its data_offsets)"}},
    {R"({"bad":)" + tensor(f32, "[2]", "[]") + "}", 8, {R"("bad" has 0 data_offsets)"}},
    {R"({"bad":)" + tensor(f32, "[2]", "[0,8,8]") + "}", 8, {R"("bad" has 3 data_offsets)"}},
    // sizes
    {R"({"bad":)" + tensor(f32, "[9223372036854775808]", "[0,8]") + "}",
     8,
     {R"("bad" has 9223372036854775808)", "2^63"}},
    {R"({"bad":)" + tensor(f32, "[99999999999999999999]", "[0,8]") + "}", 8, {R"("bad" has 99999999999999999999)"}},
    {R"({"bad":)" + tensor(f32, "[4294967296,4294967296]", "[0,8]") + "}", 8, {R"("bad")", "overflows"}},
    {R"({"bad":)" + tensor(f32, "[4611686018427387904]", "[0,0]") + "}", 0, {R"("bad")", "overflows"}},
    {R"({"bad":)" + tensor(f32, "[0,4294967296,4294967296]", "[0,0]") + "}", 0, {R"("bad")", "overflows"}},
    {R"({"bad":)" + tensor(f32, "[3]", "[0,8]") + "}", 8, {R"("bad")", "holds 8 bytes", "F32 of shape (3) needs 12"}},
    {R"({"bad":)" + tensor(f32, "[0]", "[0,8]") + "}", 8, {R"("bad")", "needs 0"}},
    {R"({"bad":)" + tensor(f32, "[2]", "[8,0]") + "}", 8, {R"("bad")", "begin must not exceed end"}},
    {R"({"bad":)" + tensor(f32, "[2]", "[0,8]") + "}", 7, {R"("bad")", "only 7 bytes follow"}},
    {R"({"bad":)" + tensor(R"("F31")", "[2]", "[0,8]") + "}", 8, {R"("bad" has the unknown dtype "F31")", "F64"}},
    {R"({"bad":)" + tensor(R"("f32")", "[2]", "[0,8]") + "}", 8, {R"("bad" has the unknown dtype "f32")", "BOOL"}},
    // coverage
    {R"({"a":)" + good + R"(,"bad":)" + tensor(f32, "[1]", "[12,16]") + "}",
     16,
     {R"("bad" begins at byte 12)", "holes"}},
    {R"({"a":)" + good + R"(,"bad":)" + tensor(f32, "[1]", "[4,8]") + "}",
     8,
     {R"("bad" begins at byte 4)", R"("a")", "overlaps"}},
    {R"({"a":)" + good + R"(,"bad":)" + good + "}", 8, {R"("bad" begins at byte 0)", R"("a")", "overlaps"}},
    {R"({"a":)" + good + R"(,"bad":)" + tensor(f32, "[0]", "[4,4]") + "}",
     8,
     {R"("bad" begins at byte 4)", "overlaps"}},
    {R"({"bad":)" + tensor(f32, "[2]", "[4,12]") + "}", 12, {R"("bad" begins at byte 4)", "holes"}},
    {R"({"bad":)" + good + "}", 9, {R"("bad" ends at byte 8)", "9"}},
    {"{}", 1, {"every byte must belong to a tensor"}},
    // metadata
    {R"({"__metadata__":{"bad":1}})", 0, {R"(__metadata__ has 1 for the key "bad")", "strings"}},
    {R"({"__metadata__":{"bad":{}}})", 0, {R"("bad")", "strings"}},
    {R"({"__metadata__":{"bad":["x"]}})", 0, {R"("bad")", "strings"}},
    {R"({"__metadata__":{"bad":null}})", 0, {R"("bad")", "strings"}},
    {R"({"__metadata__":"bad"})", 0, {R"(__metadata__ is "bad")", "strings"}},
    {R"({"__metadata__":{"bad":"1","bad":"1"}})", 0, {R"("bad" twice)"}},
    {R"({"__metadata__":{},"__metadata__":{}})", 0, {"__metadata__ appears twice"}},
};
INSTANTIATE_TEST_SUITE_P(Safetensors, BrokenHeader, ::testing::ValuesIn(broken_headers));

TEST(Safetensors, HeaderLength) {
  for (std::uint64_t size : {std::uint64_t{3}, std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{0} - 7})
    EXPECT_NE(message_of<DataError>(file_of("{}", 0, size)).find("only 2 bytes follow"), std::string::npos) << size;
  const Bytes large = file_of("{}", 100'000'001, 100'000'001);
  EXPECT_NE(message_of<DataError>(large).find("at most 100000000"), std::string::npos);
}

TEST(Safetensors, DataErrorCarriesTheFile) {
  try {
    parse_safetensors(file_of("[]"), "dir/w.safetensors");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.file(), "dir/w.safetensors");
    EXPECT_EQ(error.line(), 0);
    EXPECT_EQ(error.column(), 0);
  }
}

TEST(Safetensors, LongNamesAreCutInMessages) {
  const std::string message = message_of<DataError>(file_of("{\"" + std::string(1'000'000, 'n') + "\":1}"));
  EXPECT_LT(message.size(), 1000u);
  EXPECT_NE(message.find("nnn"), message.npos);
}

TEST(Safetensors, DeepNestingIsRefused) {
  EXPECT_THROW(parse_safetensors(file_of("{\"a\":" + std::string(1'000'000, '[')), "x"), DataError);
  EXPECT_THROW(parse_safetensors(file_of("{\"a\":{\"shape\":" + std::string(1'000'000, '[')), "x"), DataError);
}

TEST(Safetensors, ForeignDtypesAreNotSupported) {
  for (const char* dtype : {"F16", "I16", "U16", "U32", "U64", "I8", "F8_E4M3", "F8_E5M2", "C64"}) {
    const std::string text = '"' + std::string(dtype) + '"';
    const Bytes bytes =
        file_of("{\"w\":" + tensor(text, "[1]", "[0,4]") + ",\"v\":" + tensor(text, "[1]", "[4,8]") + "}", 8);
    try {
      parse_safetensors(bytes, "x.safetensors");
      FAIL() << dtype;
    } catch (const NotSupported& error) {
      const std::string message = error.what();
      for (const std::string part : {"x.safetensors", "tensor \"v\"", dtype, "F64, F32, BF16, I64, I32, U8 and BOOL"})
        EXPECT_NE(message.find(part), message.npos) << part << "\nin: " << message;
      EXPECT_EQ(error.refusals().size(), 2u);
    }
  }
  // A damaged file is a damaged file, whatever it holds.
  EXPECT_THROW(parse_safetensors(file_of("{\"w\":" + tensor("\"F16\"", "[1]", "[0,2]") + "}", 3), "x"), DataError);
}

TEST(Safetensors, WriterRefusesWhatTheFormatCannotHold) {
  const auto refused = [](const std::string& name, const Tensor& value, const std::string& key,
                          const std::string& text) {
    TensorFile file;
    file.tensors[name] = value;
    file.metadata[key] = text;
    try {
      to_safetensors(file);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const Tensor fine(DType::u8, {1});
  Tensor cut = fine;
  cut.bytes().clear();
  EXPECT_NE(refused("__metadata__", fine, "k", "v").find("__metadata__"), std::string::npos);
  EXPECT_NE(refused("w\xff", fine, "k", "v").find("UTF-8"), std::string::npos);
  EXPECT_NE(refused("w", fine, "k\xff", "v").find("UTF-8"), std::string::npos);
  EXPECT_NE(refused("w", fine, "k", "v\xff").find("\"k\""), std::string::npos);
  EXPECT_NE(refused("w", cut, "k", "v").find("\"w\""), std::string::npos);
  EXPECT_NE(refused("w", Tensor(), "k", "v").find("\"w\""), std::string::npos);
  EXPECT_NE(refused("w", fine, "k", std::string(100'000'000, 'v')).find("100000000"),
            std::string::npos);  // NOLINT(bugprone-string-constructor)
}

TEST_F(SafetensorsFiles, RoundTripOverAnExistingFile) {
  const fs::path path = folder / "w.safetensors";
  write_safetensors(path, {});
  write_safetensors(path, small_file());
  EXPECT_TRUE(same(read_safetensors(path), small_file()));
  EXPECT_EQ(fs::file_size(path), to_safetensors(small_file()).size());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

TEST_F(SafetensorsFiles, RefusedContentsLeaveTheFile) {
  const fs::path path = folder / "w.safetensors";
  write_safetensors(path, small_file());
  TensorFile wrong;
  wrong.tensors["w"] = Tensor();
  EXPECT_THROW(write_safetensors(path, wrong), InvalidArgument);
  EXPECT_TRUE(same(read_safetensors(path), small_file()));
}

TEST_F(SafetensorsFiles, UnreadableFiles) {
  const auto message = [](const fs::path& path) {
    try {
      read_safetensors(path);
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message(folder / "missing.safetensors").find("missing.safetensors: No such file"), std::string::npos);
  EXPECT_NE(message(folder).find("directory"), std::string::npos);
  EXPECT_NE(message("/dev/null").find("/dev/null"), std::string::npos);
}

TEST_F(SafetensorsFiles, DamagedFilesNameThemselves) {
  const fs::path path = folder / "w.safetensors";
  std::ofstream(path) << "version https://git-lfs.github.com/spec/v1\n";
  try {
    read_safetensors(path);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.file(), path.string());
    EXPECT_NE(error.hint().find("Git LFS"), std::string::npos);
  }
}

TEST(Safetensors, ReadsTheGoldenFiles) {
  const fs::path golden = SADDLE_SOURCE_DIR "/tests/golden";
  int count = 0;
  if (fs::exists(golden)) {
    for (const auto& item : fs::recursive_directory_iterator(golden)) {
      if (item.path().extension() != ".safetensors") continue;
      SCOPED_TRACE(item.path().string());
      const TensorFile file = read_safetensors(item.path());
      EXPECT_FALSE(file.tensors.empty());
      EXPECT_TRUE(same(parse_safetensors(to_safetensors(file), "again"), file));
      ++count;
    }
  }
  if (count == 0) GTEST_SKIP() << "no golden files";
}

}  // namespace
}  // namespace saddle::io
