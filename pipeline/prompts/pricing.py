"""Stage 2: a prompt's own template with all that may take long priced, before it runs in the sandbox."""

from typing import Any

from jinja2 import nodes

#: Names of filters that no template can write.
PRICED, WHOLE, COMPARED = "the price of", "the price of all of", "how it compares"
TURNS, JOINED = "the turns of", "all of"

#: Behind the name of a field that is read, and not called as a method.
READ = " that is read"

#: Filters that compare what is within.
_COMPARING = frozenset({"dictsort", "groupby", "max", "min", "sort", "unique"})
OF_DICTS = ("get", "items", "keys", "values")
#: What a template is made of. There are no macros, which may call themselves, and nothing that reads another file.
_NODES = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.With, nodes.Scope, nodes.Assign),
    *(nodes.AssignBlock, nodes.FilterBlock, nodes.Break, nodes.Continue, nodes.Name, nodes.NSRef, nodes.Const),
    *(nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Keyword, nodes.CondExpr, nodes.Filter, nodes.Test),
    *(nodes.Call, nodes.Getitem, nodes.Getattr, nodes.Slice, nodes.Concat, nodes.Compare, nodes.Operand, nodes.BinExpr),
    *(nodes.UnaryExpr,),
)


class NotAllowedError(Exception):
    """A template has what it may not have, on the line `lineno`."""

    def __init__(self, message: str, lineno: int) -> None:
        super().__init__(message)
        self.lineno = lineno


def bounded(template: nodes.Template) -> nodes.Template:
    """The same, with all that may take long priced. Raises NotAllowedError."""
    for node in template.find_all(nodes.Node):
        if not isinstance(node, _NODES):
            raise NotAllowedError(
                f"it has a {type(node).__name__}, which a prompt's template may not have", node.lineno
            )
        if isinstance(node, nodes.For) and node.recursive:
            raise NotAllowedError("it has a recursive loop, which a prompt's template may not have", node.lineno)
    called = {id(call.node) for call in template.find_all(nodes.Call)}
    for node in template.find_all(nodes.Getattr):
        if node.attr in OF_DICTS and id(node) not in called:
            node.attr += READ
    _price(template)
    return template


def _price(node: nodes.Node) -> None:
    """In place, from the leaves up."""
    for field, value in node.iter_fields():
        if isinstance(value, list):
            setattr(node, field, [_bought(part) for part in value])
        elif isinstance(value, nodes.Node):
            setattr(node, field, _bought(value))


def _bought(node: Any) -> Any:
    if not isinstance(node, nodes.Node):
        return node
    _price(node)
    match node:
        case nodes.For():
            own = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
            node.iter = _filter(TURNS, node.iter, nodes.Const(own))
        case nodes.Filter(node=nodes.Node()):
            node.node = _filter(WHOLE if node.name in _COMPARING else PRICED, node.node)
        case nodes.Compare():
            operands = [part for each in node.ops for part in (nodes.Const(each.op), each.expr)]
            return _filter(COMPARED, node.expr, *operands)
        case nodes.Getitem(arg=nodes.Slice()):
            return _filter(PRICED, node)
        case nodes.Getitem(arg=nodes.Expr() as key) if not isinstance(key, nodes.Const):
            node.arg = _filter(WHOLE, key)
        case nodes.Pair(key=nodes.Expr() as key) if not isinstance(key, nodes.Const):
            node.key = _filter(WHOLE, key)
        case nodes.Concat():
            return _filter(JOINED, nodes.List(node.nodes, lineno=node.lineno))
    return node


def _filter(name: str, of: Any, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(of, name, list(arguments), [], None, None, lineno=of.lineno)
