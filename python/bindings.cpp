// saddle._core: the parts of the library that need no torch.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "analysis_bindings.hpp"
#include "saddle/base/cpu.hpp"
#include "saddle/base/error.hpp"
#include "saddle/kernels/implementation.hpp"
#include "saddle/mechanisms/registry.hpp"
#include "saddle/mechanisms/select.hpp"
#include "saddle/primal/derivation.hpp"
#include "saddle/primal/fit.hpp"
#include "saddle/version.hpp"

namespace py = pybind11;

namespace saddle::python {

namespace {

using Numbers = py::array_t<double, py::array::c_style | py::array::forcecast>;

// [n,C] from a matrix or a vector.
Matrix matrix_of(const Numbers& array, const char* name) {
  if (array.ndim() != 1 && array.ndim() != 2)
    throw InvalidArgument(std::string(name) + " has " + std::to_string(array.ndim()) + " dimensions, expected 1 or 2");
  Matrix matrix({array.shape(0), array.ndim() == 2 ? array.shape(1) : 1});
  std::copy_n(array.data(), matrix.size(), matrix.data());
  return matrix;
}

py::array_t<double> array_of(const Matrix& matrix) {
  py::array_t<double> array({matrix.shape()[0], matrix.shape()[1]});
  std::copy_n(matrix.data(), matrix.size(), array.mutable_data());
  return array;
}

Dims dims_of(const std::vector<Index>& shape) {
  if (shape.size() == 4) return {shape[0], shape[1], shape[2], shape[2], shape[3], shape[3]};
  if (shape.size() == 6) return {shape[0], shape[1], shape[2], shape[3], shape[4], shape[5]};
  throw InvalidArgument("a shape has " + std::to_string(shape.size()) + " numbers, expected B,H,N,D or B,H,N,M,D,E");
}

std::string derive(const std::string& attention, const std::string& format, const std::vector<Index>& shape,
                   std::uint64_t seed, bool certificate) {
  const primal::Attention value = mechanisms::parse(attention);
  primal::DerivationOptions options;
  options.dims = shape.empty() ? primal::fitting_dims(value) : dims_of(shape);
  options.seed = seed;
  options.certificate = certificate;
  if (format == "json") return primal::derive_json(value, options);
  options.format = primal::parse_format(format);
  return primal::derive(value, options);
}

std::string explain(const std::string& attention, const std::vector<Index>& shape, const std::string& dtype,
                    bool backward) {
  kernels::Request request;
  request.attention = mechanisms::parse(attention);
  request.dims = dims_of(shape);
  const std::map<std::string, DType> known{{"float64", DType::f64}, {"float32", DType::f32}, {"bfloat16", DType::bf16}};
  const auto found = known.find(dtype);
  if (found == known.end())
    throw InvalidArgument("dtype is " + dtype + ", expected float32, bfloat16 or float64");
  request.dtype = found->second;
  request.backward = backward;
  return mechanisms::explain(request, mechanisms::select(request));
}

py::list parameters(const std::string& attention, Index heads, Index key_width, Index value_width) {
  Dims dims;
  dims.H = heads;
  dims.D = key_width;
  dims.E = value_width;
  py::list list;
  for (const auto& info : primal::parameters(mechanisms::parse(attention), dims))
    list.append(py::make_tuple(info.name, info.shape, info.initial, info.learnable));
  return list;
}

py::list mechanism_list() {
  py::list list;
  for (const auto* mechanism : mechanisms::all()) {
    py::dict entry;
    entry["name"] = mechanism->name;
    entry["composition"] = mechanism->composition;
    entry["summary"] = mechanism->summary;
    entry["level"] = std::string(mechanisms::to_string(mechanism->level));
    entry["tier"] = std::string(mechanisms::to_string(mechanism->tier));
    list.append(entry);
  }
  return list;
}

}  // namespace

}  // namespace saddle::python

PYBIND11_MODULE(_core, module) {
  using namespace saddle;
  using namespace saddle::python;
  module.doc() = "The torch-free core of saddle.";
  py::register_exception_translator([](std::exception_ptr pointer) {
    const auto text = [](const Error& error) {
      std::string message = error.what();
      if (const auto* refused = dynamic_cast<const NotSupported*>(&error))
        for (const std::string& why : refused->refusals())
          if (message.find(why) == std::string::npos) message += "\n  " + why;
      return error.hint().empty() ? message : message + "\nhint: " + error.hint();
    };
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const NotSupported& error) {
      PyErr_SetString(PyExc_NotImplementedError, text(error).c_str());
    } catch (const IoError& error) {
      PyErr_SetString(PyExc_OSError, text(error).c_str());
    } catch (const Error& error) {
      PyErr_SetString(PyExc_ValueError, text(error).c_str());
    }
  });

  module.def("version", [] { return std::string(version()); });
  module.def("isa", [] { return std::string(to_string(best_isa())); });
  module.def("mechanisms", &mechanism_list);
  module.def("parameters", &parameters, py::arg("attention"), py::arg("heads"), py::arg("key_width"),
             py::arg("value_width"));
  module.def("canonical", [](const std::string& text) { return mechanisms::canonical(text); });
  module.def("derive", &derive, py::arg("attention"), py::arg("format"), py::arg("shape"), py::arg("seed"),
             py::arg("certificate"), py::call_guard<py::gil_scoped_release>());
  module.def("explain", &explain, py::arg("attention"), py::arg("shape"), py::arg("dtype"), py::arg("backward"));

  bind_analyses(module);

  py::class_<primal::Fit>(module, "Fit")
      .def_property_readonly("values", [](const primal::Fit& fit) { return array_of(fit.v); })
      .def_property_readonly("multipliers", [](const primal::Fit& fit) { return array_of(fit.solution.beta); })
      .def_property_readonly(
          "bias",
          [](const primal::Fit& fit) { return std::vector<double>(fit.solution.b.begin(), fit.solution.b.end()); })
      .def_property_readonly("converged", [](const primal::Fit& fit) { return fit.solution.converged(); })
      .def_property_readonly("channels",
                             [](const primal::Fit& fit) {
                               py::list list;
                               for (const primal::SvrChannel& channel : fit.solution.channels) {
                                 py::dict entry;
                                 entry["status"] = std::string(primal::to_string(channel.status));
                                 entry["primal"] = channel.primal;
                                 entry["dual"] = channel.dual;
                                 entry["kkt"] = channel.kkt;
                                 entry["support_vectors"] = channel.support_vectors;
                                 entry["iterations"] = channel.iterations;
                                 list.append(entry);
                               }
                               return list;
                             })
      .def("predict",
           [](const primal::Fit& fit, const Numbers& x) { return array_of(fit.predict(matrix_of(x, "x"))); });
  module.def(
      "fit",
      [](const std::string& attention, const Numbers& inputs, const Numbers& targets, double C, double epsilon,
         bool bias) {
        const Matrix k = matrix_of(inputs, "inputs"), y = matrix_of(targets, "targets");
        primal::SvrOptions options;
        options.C = C;
        options.epsilon = epsilon;
        options.bias = bias;
        const py::gil_scoped_release release;
        return primal::fit_attention(mechanisms::parse(attention), k, y, options);
      },
      py::arg("attention"), py::arg("inputs"), py::arg("targets"), py::arg("C"), py::arg("epsilon"), py::arg("bias"));
}
