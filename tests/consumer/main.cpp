// The smallest program of a user: includes, links and runs.
#include <saddle/base/error.hpp>
#include <saddle/base/view.hpp>
#include <saddle/version.hpp>

#include <cstring>
#include <iostream>

int main() {
  saddle::Matrix matrix({2, 3}, 1.5);
  const saddle::MatrixView view = matrix;
  try {
    throw saddle::InvalidArgument("thrown here, caught as the base class", "a hint");
  } catch (const saddle::Error& error) {
    if (error.hint() != "a hint") return 1;
  }
  std::cout << "saddle " << saddle::version() << '\n';
  return view(1, 2) == 1.5 && std::strcmp(saddle::version(), SADDLE_VERSION) == 0 ? 0 : 1;
}
