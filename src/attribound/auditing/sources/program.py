"""Make sure that a file of torch.export holds tensors and arithmetic, and nothing else.

``torch.export.load`` (torch 2.13) unpickles parts of the archive without restriction and
evaluates its size expressions as Python; that no other text of it is run rests on checks
that torch makes later and for other reasons. So the archive is read here, without torch:
what is not on a short list is refused, what is not needed is dropped, and the rest is
packed into a new archive. Only that is given to torch.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator
from keyword import iskeyword
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._pytree import tree_flatten, treespec_dumps

from attribound.basics.errors import InputError

_PROGRAM = "models/model.json"
#: What every archive has; of the pickled examples of inputs none.
_FIXED = {
    "archive_format": b"pt2",
    "archive_version": b"0",
    ".data/version": b"6\n",
    "byteorder": b"little",
    "data/sample_inputs/model.pt": b"",
}
_PAYLOADS = {
    "data/weights/model_weights_config.json": re.compile(r"weight_\d+"),
    "data/constants/model_constants_config.json": re.compile(r"tensor_\d+"),
}
#: Members that are left out: torch writes its own, or the network does not need them.
_DROPPED = re.compile(
    r"archive_format|archive_version|byteorder|\.data/\w+|\.format_version|"
    r"\.storage_alignment|extra/.*|data/sample_inputs/model\.pt"
)

#: Kinds of arguments that are data. Graphs, operators and objects are not.
_ARGUMENTS = {
    *("as_none", "as_tensor", "as_tensors", "as_int", "as_ints", "as_float", "as_floats"),
    *("as_string", "as_strings", "as_sym_int", "as_sym_ints", "as_scalar_type", "as_expr"),
    *("as_memory_format", "as_layout", "as_device", "as_bool", "as_bools", "as_name"),
    *("as_optional_tensor", "as_optional_tensors", "as_sym_float", "as_sym_floats"),
    *("as_sym_bool", "as_sym_bools", "as_int_lists", "as_float_lists"),
}
_INPUT_KINDS = {"parameter", "buffer", "tensor_constant", "user_input"}
_WORDS = re.compile(r"[A-Za-z0-9_.]*")
_ARITHMETIC = re.compile(
    r"_operator\.(getitem|add|sub|mul|floordiv|mod|neg|eq|ne|lt|le|gt|ge)|torch\.sym_(min|max|int)"
)
#: ATen's operators that make numbers of numbers, which networks are made of. They draw nothing,
#: read and write nothing but their tensors, and take no memory but that of their results.
_NAMES = """
conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d linear addmm mm bmm mv dot
matmul baddbmm addbmm einsum outer scaled_dot_product_attention embedding t numpy_T transpose
permute movedim view view_as _unsafe_view reshape flatten unflatten squeeze unsqueeze expand
expand_as repeat tile cat concat stack split split_with_sizes chunk unbind slice select narrow
index index_select gather roll flip tril triu diagonal pad constant_pad_nd reflection_pad1d
reflection_pad2d replication_pad1d replication_pad2d pixel_shuffle pixel_unshuffle
channel_shuffle add sub rsub mul div divide multiply subtract true_divide floor_divide remainder
neg abs sign pow square sqrt rsqrt exp exp2 expm1 log log2 log10 log1p reciprocal sin cos tan
asin acos atan sinh cosh tanh asinh acosh atanh sigmoid log_sigmoid logit erf erfc floor ceil
round trunc addcmul addcdiv lerp hypot atan2 nan_to_num xlogy relu relu6 leaky_relu prelu
_prelu_kernel rrelu elu celu selu gelu silu mish softplus softsign softshrink hardshrink
hardtanh hardsigmoid hardswish threshold glu clamp clamp_min clamp_max minimum maximum fmin fmax
where eq ne lt le gt ge logical_and logical_or logical_not masked_fill softmax _softmax
log_softmax _log_softmax logsumexp softmin sum mean var var_mean std amax amin max min argmax
argmin prod cumsum norm linalg_vector_norm frobenius_norm any all batch_norm
_batch_norm_no_update _native_batch_norm_legit_no_training native_batch_norm layer_norm
native_layer_norm rms_norm group_norm native_group_norm instance_norm local_response_norm
max_pool1d max_pool2d max_pool3d max_pool2d_with_indices avg_pool1d avg_pool2d avg_pool3d
adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d
upsample_nearest1d upsample_nearest2d upsample_bilinear2d dropout feature_dropout alpha_dropout
alias clone contiguous detach lift_fresh_copy _to_copy to type_as sym_size sym_numel sym_stride
full full_like zeros zeros_like ones ones_like new_zeros new_ones new_full arange scalar_tensor
_assert_tensor_metadata _assert_scalar
"""
_OPERATORS = frozenset(_NAMES.split())
_SYMBOL = re.compile(r"[su]\d+")
_FUNCTIONS = {"Integer", "Add", "Mul", "Max", "Min", "Mod", "PythonMod", "FloorDiv"}

_ONE_INPUT = treespec_dumps(tree_flatten(((0,), {}))[1])
_ONE_OUTPUT = treespec_dumps(tree_flatten(0)[1])


def safe_archive(path: Path) -> io.BytesIO:
    """The program at ``path`` as a new archive that torch.export can load without running code.

    Raises:
        InputError: the archive is damaged, or has more in it than tensors and arithmetic.
    """
    try:
        return _packed(path, _members(path))
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _refused(path, f"another form ({type(error).__name__}: {error})") from error


def _packed(path: Path, members: dict[str, bytes]) -> io.BytesIO:
    records = dict(_FIXED)
    for config, pattern in _PAYLOADS.items():
        described = _parse(path, config, members)
        for name in _payloads(path, described, pattern):
            record = f"{config.rpartition('/')[0]}/{name}"
            if record not in members:
                raise _refused(path, f"no member {record}")
            records[record] = members[record]
        records[config] = json.dumps(described).encode()
    records[_PROGRAM] = json.dumps(_program(path, _parse(path, _PROGRAM, members))).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as new:
        for name, content in records.items():
            new.writestr(f"program/{name}", content)
    archive.seek(0)
    return archive


def _members(path: Path) -> dict[str, bytes]:
    """The contents of the archive by name, without its root folder."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            # Stored as they are, members cannot be larger than the file.
            if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
                raise _refused(path, "compressed members")
            members = {i.filename.partition("/")[2]: archive.read(i) for i in infos}
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise InputError(
            path.name,
            expected="a file of torch.export.save",
            got=str(error),
            remedy="it is damaged or something else: save or fetch it again",
        ) from error
    if len(members) != len(infos):
        raise _refused(path, "two members of one name")
    folders = tuple(config.rpartition("/")[0] + "/" for config in _PAYLOADS)
    for name in members:
        if name != _PROGRAM and not name.startswith(folders) and not _DROPPED.fullmatch(name):
            raise _refused(path, f"the member {name!r}")
    return members


def _parse(path: Path, name: str, members: dict[str, bytes]) -> Any:
    if name not in members:
        raise _refused(path, f"no member {name}")
    try:
        return json.loads(members[name])
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"{name} that is no JSON ({error})") from error


def _payloads(path: Path, described: Any, pattern: re.Pattern[str]) -> Iterator[str]:
    """Names of the members with the tensors that a config describes; pickled ones are refused."""
    for key, entry in described["config"].items():
        if entry["use_pickle"] is not False or not pattern.fullmatch(entry["path_name"]):
            raise _refused(path, f"{key!r} pickled, as {entry['path_name']!r}")
        yield entry["path_name"]
    _vet(path, described)


def _program(path: Path, program: Any) -> Any:
    """The vetted program, without texts that have no part in what it computes."""
    module = program["graph_module"]
    (signature,) = (c["signature"] for c in module["module_call_graph"] if c["fqn"] == "")
    specs = [json.loads(signature[key]) for key in ("in_spec", "out_spec")]
    if specs != [json.loads(_ONE_INPUT), json.loads(_ONE_OUTPUT)]:
        raise _refused(path, "other inputs and outputs than one tensor each")
    kinds = [set(spec) for spec in module["signature"]["input_specs"]]
    if not set().union(*kinds) <= _INPUT_KINDS:
        raise _refused(path, f"inputs of the kinds {sorted(set().union(*kinds))}")
    if any(set(spec) != {"user_output"} for spec in module["signature"]["output_specs"]):
        raise InputError(
            path.name,
            expected="a network in eval mode",
            got="one that changes its own buffers",
            remedy="call model.eval() before torch.export.export",
        )
    signature |= {"inputs": [], "outputs": [], "in_spec": "", "out_spec": ""}
    calls = [{"fqn": "", "signature": signature}]
    module |= {"metadata": {}, "treespec_namedtuple_fields": {}, "module_call_graph": calls}
    for node in module["graph"]["nodes"]:
        node["metadata"] = {}
    program |= {"guards_code": [], "torch_version": torch.__version__.partition("+")[0]}
    _vet(path, program)
    signature |= {"in_spec": _ONE_INPUT, "out_spec": _ONE_OUTPUT}
    return program


def _vet(path: Path, value: Any, key: str = "") -> None:
    """Refuse texts that torch would look up or evaluate, unless they are known to be harmless."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name.startswith("as_") and name not in _ARGUMENTS:
                raise _refused(path, f"an argument {name}")
            _vet(path, name)
            _vet(path, item, name)
    elif isinstance(value, list):
        for item in value:
            _vet(path, item, key)
    elif isinstance(value, str) and not _harmless(value, key):
        raise _refused(path, f"{key or 'the name'} {value!r}")


def _harmless(text: str, key: str) -> bool:
    if key in ("as_string", "as_strings"):
        return True  # an argument of an operator, e.g. of einsum
    if key == "target":
        return _is_operator(text)
    if key == "expr_str":
        return _is_arithmetic(text)
    if key in ("name", "as_name") and text:
        return text.isascii() and text.isidentifier() and not iskeyword(text)
    # Weights are attributes of modules: none may stand for one of Python's own.
    return bool(_WORDS.fullmatch(text)) and not any(p.startswith("__") for p in text.split("."))


def _is_operator(target: str) -> bool:
    if _ARITHMETIC.fullmatch(target):
        return True
    match = re.fullmatch(r"torch\.ops\.aten\.(\w+)\.(\w+)", target)
    # ``relu_`` is ``relu`` that writes over its argument.
    if not match or match[1].removesuffix("_") not in _OPERATORS:
        return False
    packet = getattr(torch.ops.aten, match[1], None)
    if not isinstance(packet, OpOverloadPacket):
        return False
    return isinstance(getattr(packet, match[2], None), OpOverload)


def _is_arithmetic(text: str) -> bool:
    """Whether a size is made of whole numbers, symbols and a few functions of them."""
    try:
        return _is_size(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _is_size(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Name):
        return _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_size(node.operand)
    if isinstance(node, ast.BinOp):
        known = isinstance(node.op, (ast.Add, ast.Sub, ast.Mult))
        return known and _is_size(node.left) and _is_size(node.right)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    if node.func.id == "Symbol":
        # As in Symbol('s0', positive=True, integer=True).
        (name,) = node.args
        values = [name, *(keyword.value for keyword in node.keywords)]
        constants = [value.value for value in values if isinstance(value, ast.Constant)]
        symbol, *assumptions = constants
        plain = len(constants) == len(values) and all(type(a) is bool for a in assumptions)
        return plain and isinstance(symbol, str) and _SYMBOL.fullmatch(symbol) is not None
    return node.func.id in _FUNCTIONS and not node.keywords and all(map(_is_size, node.args))


def _refused(path: Path, what: str) -> InputError:
    return InputError(
        path.name,
        expected="an exported program of tensors and the usual operators of networks alone",
        got=what,
        remedy="export the plain network in eval mode with torch.export.export and save it with "
        "torch.export.save; other things are refused, because loading them could run code",
    )
