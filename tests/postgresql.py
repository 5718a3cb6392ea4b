"""A PostgreSQL server of the tests' own, from the system's packages."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

REASON = "PostgreSQL is not installed: apt-get install postgresql"


def find_program(name: str) -> str | None:
    """A server program: Debian keeps them off the PATH."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(debian[-1]) if debian else shutil.which(name)


class Server:
    """Runs in a temporary folder and listens on a socket there, on no network."""

    def __init__(self) -> None:
        # Socket paths have at most 107 characters, so pytest's folders may be too deep.
        self.folder = Path(tempfile.mkdtemp(prefix="aline-pg-"))
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            self.folder.chmod(0o711)
            owner = pwd.getpwnam("postgres")
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        data = self.folder / "data"
        self._run("initdb", "-D", data, "-U", "aline", "-A", "trust", "--no-sync")
        self.start()

    def start(self) -> None:
        """Run, again if it was halted."""
        # Commits are flushed as in use; only the server's listening is narrowed.
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder}"
        where = "-D", self.folder / "data", "-w", "-l", self.folder / "log"
        self._run("pg_ctl", *where, "-o", options, "start")

    def halt(self) -> None:
        """Stop, as for an upgrade; what it holds stays."""
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "fast", "-w", "stop")

    def processes(self) -> list[int]:
        """The server and all that serve its clients."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def _run(self, program: str, *arguments: object) -> None:
        path = find_program(program)
        assert path is not None
        command = [path, *map(str, arguments)]
        if os.getuid() == 0:
            command = [
                "setpriv",
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
                *command,
            ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def url(self) -> str:
        """Its only database."""
        return f"postgresql://aline@/postgres?host={self.folder}"

    def emptied(self) -> str:
        """The database's URL, after everything in it was removed: quicker than a new one."""
        self.execute("DROP SCHEMA IF EXISTS aline CASCADE")
        self.execute("DROP SCHEMA public CASCADE")
        self.execute("CREATE SCHEMA public")
        return self.url

    def execute(self, sql: str) -> None:
        """Run SQL on a connection of its own."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql)

    def stop(self) -> None:
        """Stop at once and remove everything."""
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder)
