// Analyses and the planner, for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace saddle::python {

void bind_analyses(pybind11::module_& module);

}  // namespace saddle::python
