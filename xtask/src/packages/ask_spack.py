# What Spack would do with a recipe: its class is made of stand-ins that write down what they are told, and its methods are called as
# Spack calls them. Arguments: the recipe, a prefix. Answers a line for each thing that was told.
import os
import sys
import types

told = []


def note(name):
    return lambda *words, **options: told.append([name, *map(str, words)])


class Environment:
    set = staticmethod(note("env.set"))


api = types.ModuleType("spack.package")
for directive in ["license", "version", "provides", "depends_on"]:
    setattr(api, directive, note(directive))
api.which = lambda name, required=False: note(name)
api.join_path = os.path.join
api.find_libraries = lambda names, root, shared: [names, root]
generic = types.ModuleType("spack_repo.builtin.build_systems.generic")
generic.Package = type("Package", (), {})
for module in [api, generic]:
    for end in range(1, module.__name__.count(".") + 1):
        parent = ".".join(module.__name__.split(".")[:end])
        sys.modules.setdefault(parent, types.ModuleType(parent))
    sys.modules[module.__name__] = module


class Prefix(str):
    bin = property(lambda self: os.path.join(self, "bin"))
    lib = property(lambda self: os.path.join(self, "lib"))


recipe, prefix = sys.argv[1], Prefix(sys.argv[2])
names = {}
exec(compile(open(recipe).read(), recipe, "exec"), names)
weft = names["Weft"]()
weft.prefix, weft.spec = prefix, types.SimpleNamespace()
weft.install(weft.spec, prefix)
weft.setup_dependent_build_environment(Environment(), None)
weft.setup_dependent_package(None, None)
told.append(["libs", *weft.libs])
told.extend(["spec", name, value] for name, value in vars(weft.spec).items())
print("\n".join(" ".join(words) for words in told))
