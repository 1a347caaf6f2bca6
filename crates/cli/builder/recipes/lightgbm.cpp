// Calls LightGBM's C interface with numbers: addresses are integers. `lightgbm.py` makes them.
#include <LightGBM/c_api.h>
#include <Python.h>

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace {

// Called with each line that LightGBM logs.
PyObject *log_line = nullptr;

void log(const char *text) {
    if (PyErr_Occurred()) return;
    Py_XDECREF(PyObject_CallFunction(log_line, "y", text));
}

template <class T> T taken(PyObject *value) {
    if constexpr (std::is_floating_point_v<T>) {
        return static_cast<T>(PyFloat_AsDouble(value));
    } else if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<T>(static_cast<uintptr_t>(PyLong_AsUnsignedLong(value)));
    } else {
        return static_cast<T>(PyLong_AsLongLong(value));
    }
}

PyObject *given(int value) { return PyLong_FromLong(value); }
PyObject *given(const char *value) { return PyBytes_FromString(value); }

template <auto function> struct Call;

template <class R, class... T, R (*function)(T...)> struct Call<function> {
    static PyObject *call(PyObject *, PyObject *const *arguments, Py_ssize_t count) {
        if (count != sizeof...(T)) {
            return PyErr_Format(PyExc_TypeError, "%zu arguments are needed", sizeof...(T));
        }
        return with(arguments, std::index_sequence_for<T...>());
    }

    template <size_t... I>
    static PyObject *with([[maybe_unused]] PyObject *const *arguments, std::index_sequence<I...>) {
        std::tuple<T...> values{taken<T>(arguments[I])...};
        if (PyErr_Occurred()) return nullptr;
        R result = std::apply(function, values);
        return PyErr_Occurred() ? nullptr : given(result);
    }
};

PyObject *register_log(PyObject *, PyObject *function) {
    Py_XSETREF(log_line, Py_NewRef(function));
    return given(LGBM_RegisterLogCallback(log));
}

PyObject *bytes_at(PyObject *, PyObject *arguments) {
    unsigned long address;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "kn", &address, &size)) return nullptr;
    return PyBytes_FromStringAndSize(reinterpret_cast<const char *>(address), size);
}

PyObject *capsule_pointer(PyObject *, PyObject *arguments) {
    PyObject *capsule;
    const char *name;
    if (!PyArg_ParseTuple(arguments, "Oy", &capsule, &name)) return nullptr;
    void *pointer = PyCapsule_GetPointer(capsule, name);
    if (pointer == nullptr) return nullptr;
    return PyLong_FromVoidPtr(pointer);
}

#define FUNCTION(name)                                                                             \
    {"LGBM_" #name,                                                                                \
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(Call<&LGBM_##name>::call)),        \
     METH_FASTCALL, nullptr}

PyMethodDef functions[] = {
    {"LGBM_RegisterLogCallback", register_log, METH_O, nullptr},
    {"bytes_at", bytes_at, METH_VARARGS, nullptr},
    {"capsule_pointer", capsule_pointer, METH_VARARGS, nullptr},
    FUNCTION(BoosterAddValidData), FUNCTION(BoosterCalcNumPredict), FUNCTION(BoosterCreate),
    FUNCTION(BoosterCreateFromModelfile), FUNCTION(BoosterDumpModel),
    FUNCTION(BoosterFeatureImportance), FUNCTION(BoosterFree), FUNCTION(BoosterFreePredictSparse),
    FUNCTION(BoosterGetCurrentIteration), FUNCTION(BoosterGetEval), FUNCTION(BoosterGetEvalCounts),
    FUNCTION(BoosterGetEvalNames), FUNCTION(BoosterGetFeatureNames), FUNCTION(BoosterGetLeafValue),
    FUNCTION(BoosterGetLinear), FUNCTION(BoosterGetLoadedParam),
    FUNCTION(BoosterGetLowerBoundValue), FUNCTION(BoosterGetNumClasses),
    FUNCTION(BoosterGetNumFeature), FUNCTION(BoosterGetPredict),
    FUNCTION(BoosterGetUpperBoundValue), FUNCTION(BoosterLoadModelFromString),
    FUNCTION(BoosterMerge), FUNCTION(BoosterNumModelPerIteration),
    FUNCTION(BoosterNumberOfTotalModel), FUNCTION(BoosterPredictForArrowStream),
    FUNCTION(BoosterPredictForCSC), FUNCTION(BoosterPredictForCSR), FUNCTION(BoosterPredictForFile),
    FUNCTION(BoosterPredictForMat), FUNCTION(BoosterPredictSparseOutput), FUNCTION(BoosterRefit),
    FUNCTION(BoosterResetParameter), FUNCTION(BoosterResetTrainingData),
    FUNCTION(BoosterRollbackOneIter), FUNCTION(BoosterSaveModel),
    FUNCTION(BoosterSaveModelToString), FUNCTION(BoosterSetLeafValue),
    FUNCTION(BoosterShuffleModels), FUNCTION(BoosterUpdateOneIter),
    FUNCTION(BoosterUpdateOneIterCustom), FUNCTION(BoosterValidateFeatureNames),
    FUNCTION(DatasetAddFeaturesFrom), FUNCTION(DatasetCreateByReference),
    FUNCTION(DatasetCreateFromArrowStream), FUNCTION(DatasetCreateFromCSC),
    FUNCTION(DatasetCreateFromCSR), FUNCTION(DatasetCreateFromFile), FUNCTION(DatasetCreateFromMat),
    FUNCTION(DatasetCreateFromMats), FUNCTION(DatasetCreateFromSampledColumn),
    FUNCTION(DatasetDumpText), FUNCTION(DatasetFree), FUNCTION(DatasetGetFeatureNames),
    FUNCTION(DatasetGetFeatureNumBin), FUNCTION(DatasetGetField), FUNCTION(DatasetGetNumData),
    FUNCTION(DatasetGetNumFeature), FUNCTION(DatasetGetSubset), FUNCTION(DatasetPushRows),
    FUNCTION(DatasetSaveBinary), FUNCTION(DatasetSetFeatureNames), FUNCTION(DatasetSetField),
    FUNCTION(DatasetSetFieldFromArrowStream), FUNCTION(DatasetUpdateParamChecking),
    FUNCTION(DumpParamAliases), FUNCTION(GetLastError), FUNCTION(GetSampleCount),
    FUNCTION(NetworkFree), FUNCTION(NetworkInit), FUNCTION(SampleIndices),
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_lightgbm", nullptr, 0, functions};

}

PyMODINIT_FUNC PyInit__lightgbm(void) { return PyModuleDef_Init(&module); }
