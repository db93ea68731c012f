#include "saddle/nn/plain.hpp"

namespace saddle::nn {

namespace {

thread_local bool wanted = false;

}  // namespace

PlainOperations::PlainOperations() : before_(wanted) { wanted = true; }
PlainOperations::~PlainOperations() { wanted = before_; }

bool PlainOperations::are_wanted() { return wanted; }

}  // namespace saddle::nn
