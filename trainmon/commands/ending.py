"""How a command ends: whatever it raises becomes one calm line and an exit code."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from trainmon.commands.say import complain
from trainmon.errors import ConfigError, TrainmonError


def code_of(work: Callable[[], int]) -> int:
    """Do something, and return the exit code that it ends with."""
    try:
        return work()
    except ConfigError as error:
        for problem in error.problems:
            complain(problem)
        return error.exit_code
    except TrainmonError as error:
        complain(str(error))
        return error.exit_code
    except SystemExit as error:  # argparse, after --help; a signal
        return error.code if isinstance(error.code, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        drop_output()  # whoever read it has enough
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            return _crashed()
        drop_output()
        complain(f"the output cannot be written ({(error.strerror or '').lower()})")
        return 1
    except Exception:
        return _crashed()


def drop_output() -> None:
    """What is still buffered must not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _crashed() -> int:
    from trainmon.commands.crash import report

    complain(report())
    return 1
