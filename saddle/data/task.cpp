#include "saddle/data/task.hpp"

#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/data/records.hpp"
#include "saddle/data/split.hpp"

namespace saddle::data {

namespace {

// Opens once and remembers: the samples as long as somebody has them, the description for ever.
class Once {
 public:
  explicit Once(OpenTrain open) : open_(std::move(open)) {}

  DatasetPtr get() {
    const std::lock_guard lock(mutex_);
    DatasetPtr data = data_.lock();
    if (data == nullptr) {
      data = open_();
      data_ = data;
      description_ = data->description();
    }
    return data;
  }

  Description description() {
    {
      const std::lock_guard lock(mutex_);
      if (description_) return *description_;
    }
    return get()->description();
  }

 private:
  OpenTrain open_;
  std::mutex mutex_;
  std::weak_ptr<const Dataset> data_;
  std::optional<Description> description_;
};

}  // namespace

Task make_task(std::string name, OpenTrain train, OpenOther validation, OpenOther test) {
  const auto once = std::make_shared<Once>(std::move(train));
  const auto other = [&](OpenOther open) -> std::function<DatasetPtr()> {
    if (!open) return nullptr;
    return [once, open = std::move(open)] { return open(once->description()); };
  };
  return {std::move(name), [once] { return once->get(); }, other(std::move(validation)), other(std::move(test))};
}

Task hold_out(std::string name, OpenTrain all, double share) {
  constexpr std::uint64_t seed = 0x7e57;  // of no run
  const auto once = std::make_shared<Once>(std::move(all));
  const auto part = [once, share](bool test) {
    const DatasetPtr data = once->get();
    Split split = stratified_split(*data, share, seed);
    if (split.validation.empty())
      throw InvalidArgument(
          fmt::format("no class of {} has two samples, so none can be held out for a test", data->description().name),
          "give the test samples in a file of their own with --test");
    return subset(data, std::move(test ? split.validation : split.train), test ? "test" : "train",
                  fmt::format("{:g} % of the samples, stratified, are held out for the test", 100 * share));
  };
  return {std::move(name), [part] { return part(false); }, nullptr,
          share > 0 ? std::function<DatasetPtr()>([part] { return part(true); }) : nullptr};
}

}  // namespace saddle::data
