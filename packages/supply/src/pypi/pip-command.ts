/**
 * Runs pip with the Python that plugins run with, so that versions and wheels are chosen for that Python. pip belongs
 * to it or to another Python on the gateway's PATH. pip reads no configuration, starts no program and reaches only the
 * index.
 *
 * `--only-binary` does not stop pip from building a source archive that a package refers to by URL, which executes its
 * code. An audit hook therefore refuses every new process, and a dependency by URL is refused as soon as pip has read
 * it.
 *
 * pip also unpacks a source archive before it builds it, and old versions follow links of the archive out of the
 * folder. A source archive that may be used is therefore only downloaded here: pip stops before unpacking it and runs
 * again once a wheel has been built from it.
 */
import { spawn } from "node:child_process";
import { access, constants, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { BackplaneError, type ProgressStep } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import { programDiskFault } from "../files/program-disk-fault.ts";
import { MAX_REGISTRY_BYTES, startRegistryProxy } from "../registries/registry-proxy.ts";

export interface PythonOptions {
  /** The folders in which plugins look up programs. */
  path: readonly string[];
  /** Such as `https://pypi.org/simple`. */
  index_url: string;
  /** Other origins that serve the files of the index. */
  file_origins?: readonly string[];
  env?: Readonly<Record<string, string | undefined>>;
  timeout_ms?: number;
  /** The limit for the bytes that the index sends to one run of pip. */
  max_bytes?: number;
}

export interface Pip {
  readonly index_url: string;
  /** The origins that files may come from. */
  readonly origins: ReadonlySet<string>;
  python(): Promise<FoundPython>;
  /** Throws `PipFailure`, or `request.cancelled` after an abort. */
  run(args: readonly string[], cwd: string, run: PipRun): Promise<void>;
}

interface PipRun {
  operation: Operation;
  step: ProgressStep;
  message: string;
  /** Source archives that pip may choose. pip then fails and reports the archive that it needs next. */
  sources?: AllowedSources | undefined;
}

export interface AllowedSources {
  /** Normalized names of packages. */
  names: readonly string[];
  /** The file for the archive, or null if it is not downloaded. */
  into: string | null;
  /** A folder with wheels that were built from other archives. */
  wheels: string;
}

export interface FoundPython {
  /** Such as `3.11`. */
  version: string;
  python: string;
}

/** A dependency by URL, with the names of the packages that lead to it. */
export interface DirectDependency {
  path: string[];
  url: string;
}

/** A source archive of the index that pip has chosen. */
export interface NeededSource {
  /** Normalized. */
  name: string;
  file: string;
  url: string;
  /** As the index announces it; null if it does not. */
  sha256: string | null;
}

export class PipFailure extends BackplaneError {
  /** The log of pip, truncated. */
  readonly log: string;
  readonly direct: DirectDependency | null;
  /** The URLs that pip tried to fetch from other hosts. */
  readonly refused: readonly string[];
  /** The source archive that is needed next. */
  readonly source: NeededSource | null;

  constructor(
    message: string,
    log = "",
    stopped: { direct?: DirectDependency; source?: NeededSource } = {},
    refused: readonly string[] = [],
  ) {
    super("plugin.install_failed", message);
    this.log = log;
    this.direct = stopped.direct ?? null;
    this.source = stopped.source ?? null;
    this.refused = refused;
  }
}

export const PYPI_URL = "https://pypi.org/simple";
/** The index of PyPI links to files on another host. */
const PYPI_FILES = "https://files.pythonhosted.org";
const TIMEOUT_MS = 300_000;
/** How long a change to the installed Python may go unnoticed. */
const FOUND_MS = 60_000;
const MAX_LOG = 4 * 1024 * 1024;
/** The first version with `--report` and `--dry-run`. */
const OLDEST_PIP = [22, 2] as const;
/** Folders of the host that the sandbox shows. */
const VISIBLE = /^\/(?:usr|bin|sbin|lib|lib64)\//;
const KEPT_ENV = /^(?:HOME|LANG|TMPDIR|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE)$/;

/**
 * Arguments: the folder of pip, a file for the reason why it was stopped, the names of packages whose source archives
 * it may choose and the file for such an archive (both as JSON), and the arguments of pip.
 */
const WRAPPER = `
import json, runpy, sys, tarfile

folder, stopped, names, into = sys.argv[1:5]
STARTS = ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn")

def refuse_programs(event, args):
    if event in STARTS:
        raise PermissionError("no program may be started while packages are resolved")

def refuse_archives(*args, **kwargs):
    raise PermissionError("no source archive may be unpacked while packages are resolved")

sys.addaudithook(refuse_programs)
tarfile.TarFile.__init__ = refuse_archives
sys.path.insert(0, folder)

def stop(reason, message):
    with open(stopped, "w") as file:
        json.dump(reason, file)
    raise SystemExit(message)

from pip._internal.req.req_install import InstallRequirement

plain_init = InstallRequirement.__init__

def refuse_urls(self, req, comes_from, *args, **kwargs):
    plain_init(self, req, comes_from, *args, **kwargs)
    url = getattr(self.req, "url", None)
    if not url or comes_from is None or not self.match_markers():
        return
    path, at = [self.req.name], comes_from
    while at is not None and not isinstance(at, str):
        path.insert(0, at.name or "")
        at = at.comes_from
    stop({"direct": {"path": path, "url": url}}, "a dependency is given by URL")

InstallRequirement.__init__ = refuse_urls

names, into = frozenset(json.loads(names)), json.loads(into)
if names:
    import shutil
    from pip._internal.models.format_control import FormatControl
    from pip._internal.operations.prepare import RequirementPreparer, get_http_url

    plain_formats = FormatControl.get_allowed_formats
    plain_prepare = RequirementPreparer.prepare_linked_requirement

    def allow_sources(self, name):
        return frozenset(("binary", "source")) if name in names else plain_formats(self, name)

    def stop_at_source(self, req, *args, **kwargs):
        link = req.link
        if link.is_wheel:
            return plain_prepare(self, req, *args, **kwargs)
        if into is not None:
            found = get_http_url(link, self._download, None, req.hashes(trust_internet=True))
            shutil.copyfile(found.path, into)
        sha256 = link.hash if link.hash_name == "sha256" else None
        source = {"name": req.name, "file": link.filename, "url": link.url_without_fragment, "sha256": sha256}
        stop({"source": source}, "a source archive has to be built")

    FormatControl.get_allowed_formats = allow_sources
    RequirementPreparer.prepare_linked_requirement = stop_at_source

sys.argv = ["pip", *sys.argv[5:]]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
`;

/** Prints the version of Python and, if it has pip, the version and the folder of pip. */
const DESCRIBE = `
import os, sys
print("%d.%d" % sys.version_info[:2])
try:
    import pip
    print(pip.__version__, os.path.dirname(os.path.dirname(pip.__file__)))
except ImportError:
    pass
`;

interface FoundPip extends FoundPython {
  /** The folder that contains the module. */
  folder: string;
}

export function createPip(options: PythonOptions): Pip {
  const { path, index_url, timeout_ms = TIMEOUT_MS, max_bytes = MAX_REGISTRY_BYTES } = options;
  const env = options.env ?? process.env;
  const index = new URL(index_url);
  const origins = new Set([
    index.origin,
    ...(index.hostname === "pypi.org" ? [PYPI_FILES] : []),
    ...(options.file_origins ?? []),
  ]);
  const clean: Record<string, string> = {};
  for (const [key, value] of Object.entries(env)) {
    if (value !== undefined && KEPT_ENV.test(key)) clean[key] = value;
  }
  // Without a PATH, pip cannot start git either. With the null device as its configuration file, it reads no other.
  const pip_env = {
    ...clean,
    PATH: "/nonexistent",
    PIP_CONFIG_FILE: "/dev/null",
    PYTHONDONTWRITEBYTECODE: "1",
  };
  let cached: { found: FoundPip; at: number } | undefined;
  const find = async () => {
    if (cached !== undefined && performance.now() - cached.at < FOUND_MS) return cached.found;
    const pip = await findPip(path, env.PATH ?? "", clean);
    cached = { found: pip, at: performance.now() };
    return pip;
  };
  return {
    index_url,
    origins,
    python: find,
    async run([command, ...args], cwd, { operation, step, message, sources }) {
      const { python, folder } = await find();
      operation.report({ step, message });
      const proxy = await startRegistryProxy({
        origins,
        upstream: (origin) => findUpstreamProxy(env, origin),
        onReceived: (done) => operation.report({ step, message, done, unit: "bytes" }),
        max_bytes,
      });
      const temporary = await mkdtemp(join(tmpdir(), "backplane-pip-"));
      const [log, stopped] = [join(temporary, "log"), join(temporary, "stopped")];
      const all = [
        command!,
        ...COMMON_ARGS,
        ...(await indexArguments(index, temporary)),
        "--proxy",
        proxy.url,
        "--log",
        log,
        ...(sources === undefined ? [] : ["--find-links", sources.wheels]),
        ...args,
      ];
      const allowed = [JSON.stringify(sources?.names ?? []), JSON.stringify(sources?.into ?? null)];
      try {
        const started = { file: python, args: ["-I", "-c", WRAPPER, folder, stopped, ...allowed, ...all] };
        // A pip that is killed leaves its temporary files behind, which are removed with this folder.
        const env = { ...pip_env, TMPDIR: temporary };
        const ended = await runProgram(started, { cwd, env, timeout_ms, signal: operation.signal });
        if (ended.code === 0) return;
        const disk_fault = programDiskFault("pip", ended.output);
        if (disk_fault !== null) throw disk_fault;
        const text = (await readFile(log, "utf8").catch(() => "")).slice(0, MAX_LOG);
        const stop_report = await readFile(stopped, "utf8").catch(() => "{}");
        const reason = ended.timed_out
          ? `pip did not finish within ${timeout_ms} ms.`
          : proxy.exceeded
            ? `The Python index sent more than ${max_bytes} bytes.`
            : `pip failed: ${messageOf(ended.output)}`;
        const parsed = JSON.parse(stop_report) as { direct?: DirectDependency; source?: NeededSource };
        throw new PipFailure(reason, text, parsed, proxy.refused);
      } finally {
        await proxy.close();
        await rm(temporary, { recursive: true, force: true });
      }
    },
  };
}

/** Every user of the machine can read the arguments of a process, so a login is passed in a file. */
async function indexArguments(index: URL, folder: string): Promise<string[]> {
  if (index.username === "" && index.password === "") return ["--index-url", index.href];
  const file = join(folder, "index.txt");
  await writeFile(file, `--index-url ${index.href}\n`, { mode: 0o600 });
  return ["--requirement", file];
}

const COMMON_ARGS = [
  "--isolated",
  "--no-input",
  "--disable-pip-version-check",
  "--no-cache-dir",
  "--progress-bar=off",
  "--retries=2",
  "--timeout=30",
  "--only-binary=:all:",
];

/** The first python3 for plugins, and a pip that can run on it. */
async function findPip(
  plugin_path: readonly string[],
  gateway_path: string,
  env: Record<string, string>,
): Promise<FoundPip> {
  const python = await firstProgram(plugin_path, "python3");
  if (python === null) {
    throw missingPython(
      `There is no python3 in ${plugin_path.join(", ")}, where plugins look up programs`,
      "apt-get install -y python3 python3-pip",
    );
  }
  const real = await realpath(python);
  if (!VISIBLE.test(real)) {
    throw missingPython(
      `${python} is a link to ${real}, which is not visible in the sandbox`,
      "Install Python below /usr: apt-get install -y python3 python3-pip",
    );
  }
  const { version, folder: own_folder } = await describePython(python, env);
  if (own_folder !== null) return { python, version, folder: own_folder };
  // pip is pure Python, so one that belongs to another Python can run here.
  for (const directory of gateway_path.split(delimiter)) {
    for (const name of ["python3", "python"]) {
      const other_python = directory === "" ? null : await firstProgram([directory], name);
      const folder = other_python === null ? null : (await describePython(other_python, env)).folder;
      if (folder !== null) return { python, version, folder };
    }
  }
  throw missingPython(
    `There is no pip of version ${OLDEST_PIP.join(".")} or later for ${python}`,
    "apt-get install -y python3-pip",
  );
}

/** `folder` is null if this Python has no pip or one that is too old. */
async function describePython(
  file: string,
  env: Record<string, string>,
): Promise<{ version: string; folder: string | null }> {
  const { code, output } = await runProgram(
    { file, args: ["-I", "-c", DESCRIBE] },
    { cwd: "/", env, timeout_ms: 30_000 },
  );
  const [version = "", pip = ""] = code === 0 ? output.split("\n") : [];
  const [, major, minor, folder = null] = /^(\d+)\.(\d+)\S* (.+)$/.exec(pip) ?? [];
  const version_difference = Number(major) - OLDEST_PIP[0] || Number(minor) - OLDEST_PIP[1];
  return { version, folder: version_difference < 0 ? null : folder };
}

async function firstProgram(folders: readonly string[], name: string): Promise<string | null> {
  for (const folder of folders) {
    const file = join(folder, name);
    const is_executable = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (is_executable) return file;
  }
  return null;
}

function missingPython(problem: string, fix: string): BackplaneError {
  return new BackplaneError("plugin.install_failed", `${problem}. Python packages need python3 and pip.`, {
    fix,
  });
}

interface ProgramResult {
  code: number | null;
  /** Standard output, then standard error. */
  output: string;
  timed_out: boolean;
}

async function runProgram(
  { file, args }: { file: string; args: readonly string[] },
  options: { cwd: string; env: Record<string, string>; timeout_ms: number; signal?: AbortSignal },
): Promise<ProgramResult> {
  const { cwd, env, timeout_ms, signal } = options;
  if (signal?.aborted) throw new BackplaneError("request.cancelled");
  const child = spawn(file, args, { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  const texts = [child.stdout, child.stderr].map((stream) => {
    const text = { value: "" };
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      if (text.value.length < MAX_LOG) text.value += chunk;
    });
    return text;
  });
  let timed_out = false;
  const kill = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // The process has already exited.
    }
  };
  const timer = setTimeout(() => {
    timed_out = true;
    kill();
  }, timeout_ms);
  signal?.addEventListener("abort", kill);
  const code = await new Promise<number | null>((resolve) => {
    child.once("error", () => resolve(null));
    child.once("close", resolve);
  });
  clearTimeout(timer);
  signal?.removeEventListener("abort", kill);
  if (signal?.aborted) throw new BackplaneError("request.cancelled");
  return { code, output: texts.map(({ value }) => value).join("\n"), timed_out };
}

/** The operator's own proxy, as curl and pip read it from the environment. */
function findUpstreamProxy(env: PythonOptions["env"] & object, origin: string): URL | null {
  const { hostname, protocol } = new URL(origin);
  const read = (name: string) => env[name.toLowerCase()] ?? env[name];
  const direct = (read("NO_PROXY") ?? "").split(",").map((name) => name.trim().replace(/^\*?\./, ""));
  if (
    direct.some((name) => name !== "" && (name === "*" || hostname === name || hostname.endsWith(`.${name}`)))
  )
    return null;
  const proxy_url = read(protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY") ?? "";
  return URL.canParse(proxy_url) ? new URL(proxy_url) : null;
}

/** The error lines of pip. */
function messageOf(output: string): string {
  const lines = output
    .split("\n")
    .filter((line) => /^(?:ERROR: |error: )/.test(line))
    .map((line) => line.replace(/^(?:ERROR|error): /, "").trim());
  const message = lines.slice(0, 3).join(" ");
  return message === "" ? "it reported no reason" : message.slice(0, 500);
}
