"""The calls: public functions of the libraries, and methods of their objects."""

import importlib
import inspect
import re
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from signatures import calls
from sklearn.utils import all_estimators

from values import LISTS, TABLES

# Modules of functions, and the number of calls kept for each function.
MODULES = {
    "numpy": [
        ("np", 3), ("np.linalg", 3), ("np.fft", 3), ("np.ma", 2), ("np.lib.stride_tricks", 2),
        ("np.polynomial.polynomial", 3), ("np.polynomial.chebyshev", 1), ("np.char", 0),
    ],
    "pandas": [("pd", 4), ("pd.api.types", 2)],
    "scipy": [
        ("scipy.integrate", 3), ("scipy.signal", 2), ("scipy.signal.windows", 1),
        ("scipy.stats", 2), ("scipy.stats.mstats", 1), ("scipy.stats.contingency", 2),
        ("scipy.ndimage", 3), ("scipy.linalg", 2), ("scipy.interpolate", 2), ("scipy.special", 1),
        ("scipy.spatial.distance", 3), ("scipy.spatial", 2), ("scipy.sparse", 3), ("scipy.fft", 2),
        ("scipy.optimize", 2), ("scipy.cluster.vq", 2), ("scipy.cluster.hierarchy", 2),
        ("scipy.sparse.linalg", 2), ("scipy.sparse.csgraph", 2), ("scipy.constants", 1),
    ],
    "sklearn": [
        ("sklearn.metrics", 3), ("sklearn.metrics.pairwise", 3), ("sklearn.preprocessing", 3),
        ("sklearn.utils", 2), ("sklearn.utils.extmath", 3), ("sklearn.feature_selection", 3),
        ("sklearn.covariance", 2), ("sklearn.cluster", 2), ("sklearn.linear_model", 2),
        ("sklearn.isotonic", 2), ("sklearn.manifold", 1), ("sklearn.decomposition", 2),
        ("sklearn.utils.multiclass", 3), ("sklearn.utils.validation", 2), ("sklearn.inspection", 1),
        ("sklearn.utils.class_weight", 2), ("sklearn.model_selection", 1), ("sklearn.neighbors", 1),
    ],
    "statsmodels": [
        ("statsmodels.tsa.stattools", 4), ("statsmodels.tsa.tsatools", 4),
        ("statsmodels.tsa.filters.filtertools", 3), ("statsmodels.tsa.filters.hp_filter", 3),
        ("statsmodels.tsa.filters.bk_filter", 3), ("statsmodels.tsa.filters.cf_filter", 3),
        ("statsmodels.tsa.seasonal", 2), ("statsmodels.tsa.ar_model", 2),
        ("statsmodels.stats.stattools", 4), ("statsmodels.stats.weightstats", 4),
        ("statsmodels.stats.proportion", 4), ("statsmodels.stats.multitest", 3),
        ("statsmodels.stats.diagnostic", 3), ("statsmodels.stats.moment_helpers", 4),
        ("statsmodels.stats.rates", 4), ("statsmodels.stats.contingency_tables", 4),
        ("statsmodels.stats.descriptivestats", 3), ("statsmodels.stats.nonparametric", 4),
        ("statsmodels.stats.inter_rater", 4), ("statsmodels.stats.gof", 3),
        ("statsmodels.stats.oneway", 4), ("statsmodels.stats.power", 2),
        ("statsmodels.stats.effect_size", 3), ("statsmodels.stats.libqsturng", 2),
        ("statsmodels.stats.outliers_influence", 3), ("statsmodels.stats.sandwich_covariance", 2),
        ("statsmodels.stats.correlation_tools", 3), ("statsmodels.stats.robust_compare", 4),
        ("statsmodels.stats.meta_analysis", 2), ("statsmodels.stats.multivariate", 3),
        ("statsmodels.tools.tools", 4), ("statsmodels.tools.eval_measures", 4),
        ("statsmodels.tools.numdiff", 2), ("statsmodels.tools.grouputils", 2),
        ("statsmodels.tools.catadd", 2), ("statsmodels.tools.transform_model", 2),
        ("statsmodels.robust.scale", 4), ("statsmodels.robust.norms", 2),
        ("statsmodels.nonparametric.smoothers_lowess", 3), ("statsmodels.tsa.vector_ar.util", 2),
        ("statsmodels.nonparametric.bandwidths", 3),
        ("statsmodels.distributions.empirical_distribution", 2),
        ("statsmodels.regression.linear_model", 2), ("statsmodels.tsa.interp.denton", 2),
        ("statsmodels.tsa.arima_process", 3), ("statsmodels.multivariate.factor_rotation", 1),
        ("statsmodels.genmod.families.links", 1), ("statsmodels.tsa.regime_switching.tests", 1),
    ],
}  # fmt: skip

# Calls that no signature tells, and statsmodels' models, one per line.
TEMPLATES = Path(__file__).resolve().parent / "templates"

FRAME = 'pd.DataFrame({"k": [1, 2, 1, 2], "a": %s, "b": %s})'
OTHER = 'pd.DataFrame({"k": [2, 1, 3, 2], "c": %s})'
DATES = 'pd.Series(%s, index=pd.date_range("2024", periods=4, freq="12h"))'

# Objects whose methods are called: their text with a `%s` for each list, and the number of calls
# for each method.
RECEIVERS = {
    "numpy": [
        ("np.array(%s)", 3), ("np.ma.array(%s)", 2), ("np.random.default_rng(0)", 3),
        ("np.random.RandomState(0)", 3), ("np.polynomial.Polynomial(%s)", 1), ("np.matrix(%s)", 1),
    ],
    "pandas": [
        ("pd.Series(%s)", 2), (FRAME, 2), ("pd.Index(%s)", 2), (FRAME + '.groupby("k")', 2),
        (FRAME + '.groupby("k")["a"]', 2), ("pd.Series(%s).rolling(2)", 2),
        ("pd.Series(%s).expanding()", 2), ("pd.Series(%s).ewm(2)", 1),
        (DATES + '.resample("D")', 2),
        (FRAME + '[["a", "b"]].rolling(2)', 1), ('pd.Series(%s, dtype="Int64")', 1),
        ('pd.array(%s, dtype="Int64")', 1), ("pd.Series(%s).groupby([1, 1, 2, 2])", 1),
        ("pd.Categorical(%s)", 1), ("pd.Series(%s, dtype=object)", 1),
        ('pd.to_timedelta(pd.Series(%s), unit="s").dt', 1), ("pd.RangeIndex(0, 2**33, 2**31)", 1),
        ('pd.to_datetime(pd.Series(%s), unit="s").dt', 1),
        ("pd.IntervalIndex.from_breaks([1, 2**31, 2**33])", 1),
    ],
    "scipy": [
        ("scipy.sparse.csr_array([%s, %s])", 2), ("scipy.sparse.coo_matrix([%s, %s])", 1),
        ("scipy.sparse.csc_matrix([%s, %s])", 1), ("scipy.sparse.dok_array([%s, %s])", 1),
        ("scipy.sparse.lil_array([%s, %s])", 1), ("scipy.sparse.dia_array([%s, %s])", 1),
    ],
}  # fmt: skip

# Text and files, state of the process, and functions that take all time or memory.
SKIPPED = re.compile(
    r"read_|to_(clipboard|sql|excel|hdf|gbq|pickle|parquet|feather|stata|orc|html|latex|markdown|xarray|"
    r"csv|json|string|device|file|iceberg)|plot|hist$|boxplot|save|load|print|set_|get_include|show_|test$|"
    r"option|info$|style$|fromfile|tofile|dump|memmap|tobytes|getbuffer|seterr|errstate|bench|"
    r"bytes$|rand_|pipe$|eval$|iterrows|itertuples|items$|keys$|flags$|ctypes|data$|base$|"
    r"interp_fun|fetch_|make_|clear_data|data_home|display|config|joblib|parallel|check_estimator|"
    r"all_estimators|show_versions|estimator_html|murmurhash|deprecated|resetbuffer|empty|"
    r"get_state|__|bit_generator|random_raw|seed$|from_dummies|memory_usage|nbytes|size$|setflags|"
    r"sample$|bootstrap_|clarkson|randomized|getfield|setfield|byteswap|newbyteorder|view$|inferred|attrs|sizeof|real_if|fromstring"
)


def turn(text):
    """A number derived from a text."""
    return zlib.crc32(text.encode()) % 1009


def functions(path):
    """The public functions of a module, once each."""
    name = path.replace("np", "numpy", 1) if path.startswith("np") else path
    module = importlib.import_module("pandas" + name[2:] if name.startswith("pd") else name)
    for attribute in sorted(getattr(module, "__all__", None) or dir(module)):
        value = read(module, attribute)
        if attribute.startswith("_") or SKIPPED.search(attribute) or not callable(value):
            continue
        if isinstance(value, type):
            # Types of values, and small objects that take values.
            if path not in ("np", "pd") and not path.startswith("statsmodels.genmod"):
                continue
            if not issubclass(value, (np.generic, pd.Index, pd.Series)):
                continue
        home = getattr(value, "__module__", None) or ""
        if path.startswith(("statsmodels", "sklearn")) and home.split(".")[0] != path.split(".")[0]:
            continue
        yield attribute, value


def subjects(library):
    """Groups of calls: a name, texts of calls, and the number of them to keep."""
    seen = set()
    for path, kept in MODULES[library]:
        for attribute, value in functions(path) if kept else ():
            if id(value) in seen:
                continue
            seen.add(id(value))
            name = f"{path}.{attribute}"
            yield name, list(calls(name, value, turn(name))), kept
    for template, kept in RECEIVERS.get(library, ()):
        yield from methods(template, kept)
    if library == "sklearn":
        yield from estimators()
    if library == "statsmodels":
        yield from models()
    for template in lines(library):
        at = turn(template)
        texts = [filled(template, at), filled(template, at + 4)]
        yield template, texts, 2


def lines(name):
    return (TEMPLATES / f"{name}.txt").read_text().splitlines()


def filled(template, at):
    """A template with frames for `%f` and `%o`, a list for each `%s` and a table for each `%t`."""
    template = template.replace("%f", FRAME).replace("%o", OTHER)
    while "%s" in template or "%t" in template:
        place = min(p for p in (template.find("%s"), template.find("%t")) if p >= 0)
        texts = LISTS if template[place + 1] == "s" else TABLES
        template = template[:place] + texts[at % len(texts)] + template[place + 2 :]
        at += 1
    return template


def methods(template, kept):
    receiver = evaluated(filled(template, 0))
    for attribute in dir(receiver):
        if attribute.startswith("_") or SKIPPED.search(attribute):
            continue
        value = read(receiver, attribute)
        if value is None:
            continue
        name = f"{template}.{attribute}"
        at = turn(name)
        if not callable(value):
            yield name, [f"{filled(template, at)}.{attribute}"], 1
        else:
            texts = []
            for step in range(2):
                path = f"{filled(template, at + step)}.{attribute}"
                texts.append(list(calls(path, value, at + step, receiver=True)))
            yield name, [text for pair in zip(*texts, strict=False) for text in pair], kept


def read(value, attribute):
    """An attribute, or nothing if it does not exist for this value."""
    try:
        return getattr(value, attribute, None)
    except Exception:
        return None


def estimators():
    """The attributes and predictions of estimators."""
    for name, kind in all_estimators():
        path = f"{kind.__module__.rsplit('._', 1)[0]}.{name}"
        at = turn(path)
        options = "random_state=0" if "random_state" in inspect.signature(kind).parameters else ""
        table = ROWS[at % len(ROWS)]
        fitted = f"{path}({options}).fit({table}, {TARGETS[at % len(TARGETS)]})"
        classes = f"{path}({options}).fit({table}, {CLASSES})"
        texts = []
        for base in (fitted, classes):
            for what in LEARNT:
                if hasattr(kind, what.partition("(")[0]):
                    texts.append(f"{base}.{what.format(table)}")
        texts += [f"{fitted}.{each}" for each in learnt(fitted)]
        yield path, texts, 3


def learnt(text):
    """The public attributes of fitted objects: those that end in an underscore."""
    try:
        fitted = evaluated(text)
    except Exception:
        return []
    return sorted(a for a in vars(fitted) if a.endswith("_") and not a.startswith(("_", "n_iter")))


ROWS = [
    "[[100_000, 2_000_000_000], [300_000, 5], [70_000, 2**31], [200_000, 3_000_000_000]]",
    "np.array([[2_000_000_000, 1], [1_500_000_000, 2], [7, 100_000], [60_000, 60_000]])",
    "[(2**31, 60_000), (5, 70_000), (100_000, 80_000), (2**33, 90_000)]",
    'pd.DataFrame({"a": [100_000, 300_000, 70_000, 200_000], "b": [2_000_000_000, 7, 2**31, 9]})',
]
TARGETS = ["[2_000_000_000, 1_500_000_000, 7, 100_000]", "pd.Series([100_000, 2**31, 2**33, 5])"]
CLASSES = "[2**31, 3_000_000_000, 2**31, 3_000_000_000]"
LEARNT = [
    "predict({0})", "transform({0})", "fit_predict({0})", "score_samples({0})", "kneighbors({0})",
    "decision_function({0})", "predict_proba({0})", "get_support(indices=True)",
]  # fmt: skip


VALUES = (int, float, np.generic, np.ndarray, pd.Series, pd.DataFrame, tuple)


def models():
    """All plain attributes of the results of statsmodels' models."""
    for text in lines("models"):
        result = evaluated(text)
        for attribute in sorted(dir(result)):
            if attribute.startswith(("_", "model", "summary", "plot", "t_test", "f_test", "wald")):
                continue
            value = read(result, attribute)
            if isinstance(value, VALUES):
                yield f"{text}.{attribute}", [f"{text}.{attribute}"], 1


def evaluated(text):
    names = {"np": np, "pd": pd}
    for path in re.findall(r"\b((?:scipy|sklearn|statsmodels)(?:\.[a-z_]+)*)", text):
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            try:
                importlib.import_module(".".join(parts[:end]))
            except ModuleNotFoundError:
                break
        names[parts[0]] = importlib.import_module(parts[0])
    return eval(text, names)
