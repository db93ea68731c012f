#include "saddle/nn/dense/packed_weights.hpp"

#include <list>
#include <mutex>

namespace saddle::nn {

namespace {

using kernels::Rows;
using kernels::dense::Side;
using Packed = kernels::dense::PackedWeight<BFloat16>;

constexpr std::int64_t most_bytes = std::int64_t{1} << 30;

// What a weight is, apart from its values.
struct Place {
  const void* data;
  Index O, I, stride;
  Side side;
  bool operator==(const Place&) const = default;
};

// Writes through Tensor::data() are not counted as versions; the digest shows them.
struct Values {
  std::int64_t version = 0;
  std::uint64_t digest = 0;
  bool operator==(const Values&) const = default;
};

struct Entry {
  Place place;
  Values values;
  c10::weak_intrusive_ptr<c10::StorageImpl> owner;
  std::shared_ptr<Packed> packed;
};

// The most recently used first. Some hundred entries at most in practice: a search costs less than a product.
class Cache {
 public:
  // The weight, or memory to pack it into.
  std::shared_ptr<Packed> find(const Place& place, const Values& values, bool& valid) {
    const std::lock_guard lock(mutex_);
    valid = false;
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (!(entry->place == place)) continue;
      if (entry->values == values && !entry->owner.expired()) {
        entries_.splice(entries_.begin(), entries_, entry);
        valid = true;
        ++counts_.hits;
        return entry->packed;
      }
      std::shared_ptr<Packed> memory = std::move(entry->packed);
      counts_.bytes -= memory->bytes();
      entries_.erase(entry);
      // Somebody may still be multiplying with the old one.
      if (memory.use_count() == 1) return memory;
      break;
    }
    return std::make_shared<Packed>();
  }

  void insert(Entry entry) {
    const std::lock_guard lock(mutex_);
    ++counts_.packs;
    counts_.bytes += entry.packed->bytes();
    entries_.push_front(std::move(entry));
    for (auto old = std::next(entries_.begin()); old != entries_.end();) {
      const bool again = old->place == entries_.front().place;  // two threads packed it
      if (!again && !old->owner.expired()) {
        ++old;
        continue;
      }
      counts_.bytes -= old->packed->bytes();
      old = entries_.erase(old);
    }
    while (counts_.bytes > most_bytes && entries_.size() > 1) {
      counts_.bytes -= entries_.back().packed->bytes();
      entries_.pop_back();
    }
  }

  PackedWeightCounts counts() {
    const std::lock_guard lock(mutex_);
    PackedWeightCounts counts = counts_;
    counts.entries = static_cast<std::int64_t>(entries_.size());
    return counts;
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    entries_.clear();
    counts_.bytes = 0;
  }

 private:
  std::mutex mutex_;
  std::list<Entry> entries_;
  PackedWeightCounts counts_;
};

Cache& cache() {
  static Cache* const shared = new Cache;  // tensors may outlive static objects
  return *shared;
}

}  // namespace

PackedWeightCounts packed_weight_counts() { return cache().counts(); }

void forget_packed_weights() { cache().clear(); }

std::shared_ptr<const Packed> packed_weight(const torch::Tensor& weight, Side side) {
  const Index O = weight.size(0), I = weight.size(1);
  const Rows<const float> rows{weight.data_ptr<float>(), weight.stride(0)};
  // Tensors of inference mode have no version, and empty ones need no memory.
  if (weight.is_inference() || weight.numel() == 0) {
    const auto packed = std::make_shared<Packed>();
    packed->pack(side, rows, O, I);
    return packed;
  }
  const Place place{rows.data, O, I, rows.stride, side};
  const Values values{static_cast<std::int64_t>(weight._version()), kernels::dense::digest(rows, O, I)};
  bool valid = false;
  std::shared_ptr<Packed> packed = cache().find(place, values, valid);
  if (!valid) {
    packed->pack(side, rows, O, I);
    cache().insert({place, values, weight.storage().getWeakStorageImpl(), packed});
  }
  return packed;
}

}  // namespace saddle::nn
