"""One rank of a run of mpi4py's own tests, leaving a record that says how far it came.

    mpiexec -n N python run.py SUITE RECORD LIMIT EXCLUDED MODULE...

SUITE is the folder of the test files, RECORD a path to which `.RANK` is appended, LIMIT the seconds
that one test may take, EXCLUDED a file with one pattern per line, matched against
`module.Class.test`. `cargo xtask mpi4py` starts this and reads the records; each line is a word, a
name, and for some words a text without newlines:

    module NAME          the tests of this file begin
    start  TEST          begins; the same test ends with one of
    ok     TEST
    skip   TEST REASON
    fail   TEST MESSAGE
    done   NAME          the tests of this file have ended on this rank

Where a rank was when a test took too long, or when it crashed, is in RECORD.RANK.trace.
"""

import faulthandler
import fnmatch
import pathlib
import sys
import traceback
import types
import unittest


def one_line(text):
    return " | ".join(line.strip() for line in str(text).splitlines() if line.strip())


class Record(unittest.TestResult):
    """Writes each event to the record at once: the rank may not live to write it later."""

    def __init__(self, record, trace, limit):
        super().__init__()
        self.record = record
        self.trace = trace
        self.limit = limit
        self.outcome = None

    def write(self, word, name, text=""):
        self.record.write(f"{word} {name} {one_line(text)}".rstrip() + "\n")
        self.record.flush()

    def startTest(self, test):
        super().startTest(test)
        self.outcome = ("ok", "")
        faulthandler.dump_traceback_later(self.limit, file=self.trace)
        self.write("start", test.id())

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        (word, text), self.outcome = self.outcome, None
        self.write(word, test.id(), text)
        super().stopTest(test)

    def failed(self, test, err):
        kind, value, where = err
        frames = traceback.extract_tb(where)
        inside = [frame for frame in frames if "test_" in pathlib.Path(frame.filename).name]
        place = inside[-1] if inside else frames[-1]
        message = "".join(traceback.format_exception_only(kind, value))
        text = f"{pathlib.Path(place.filename).name}:{place.lineno} {place.line} => {message}"
        self.trace.write(f"{test.id()}\n" + "".join(traceback.format_exception(*err)) + "\n")
        self.trace.flush()
        if self.outcome is None:
            # Not a test but the preparation of a class or of a module.
            name = test.id().rpartition("(")[2].rstrip(")")
            self.write("start", name)
            self.write("fail", name, text)
        else:
            self.outcome = ("fail", text)

    def addError(self, test, err):
        super().addError(test, err)
        self.failed(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed(test, err)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.outcome = ("fail", "passed, though the suite expects a failure")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.outcome = ("skip", "the suite expects a failure")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.outcome is not None:
            self.outcome = ("skip", reason)


class Named:
    """Stands for the tests of a file that cannot be loaded."""

    def __init__(self, name):
        self.name = name

    def id(self):
        return self.name


def load(suite, name):
    """A test file as a module.

    Many files try while they are loaded whether the library has files, windows, sessions, and leave
    their tests out when that raises NotImplementedError: mpi4py's answer for what its MPI does not
    declare. Ours declares everything, so an error of the library must count as well.
    """
    path = pathlib.Path(suite) / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    for handler in ("\nexcept NotImplementedError:", "\nexcept (NotImplementedError):"):
        source = source.replace(handler, "\nexcept (NotImplementedError, MPI.Exception):")
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(source, path, "exec"), module.__dict__)
    return module


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def main():
    suite, record, limit, excluded, *modules = sys.argv[1:]
    sys.dont_write_bytecode = True
    sys.path.insert(0, suite)
    excluded = pathlib.Path(excluded).read_text(encoding="utf-8").split()

    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    # All ranks are up before the first test: what follows is not start-up time.
    MPI.COMM_WORLD.Barrier()
    with (
        open(f"{record}.{rank}", "w", encoding="utf-8") as lines,
        open(f"{record}.{rank}.trace", "w", encoding="utf-8") as trace,
    ):
        faulthandler.enable(file=trace)
        good = True
        for name in modules:
            # One for each file: it remembers the last class, whose teardown would come again.
            result = Record(lines, trace, float(limit))
            result.write("module", name)
            try:
                loaded = unittest.defaultTestLoader.loadTestsFromModule(load(suite, name))
            except Exception:
                result.failed(Named(name), sys.exc_info())
                loaded = ()
            wanted = unittest.TestSuite(
                test
                for test in tests_of(loaded)
                if not any(fnmatch.fnmatchcase(test.id(), pattern) for pattern in excluded)
            )
            wanted.run(result)
            result.write("done", name)
            good = good and result.wasSuccessful() and loaded != ()
        sys.exit(not good)


if __name__ == "__main__":
    main()
