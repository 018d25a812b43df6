/**
 * Parses the commands that start published servers: npx, uvx, pipx, `python -m` and `docker run`. They become sources,
 * because a sandbox has neither a network to download from, nor the caches of these programs, nor a container engine.
 */
import { BackplaneError } from "@backplane/contract";
import { parseImageReference } from "../../container-images/image-reference.ts";
import { isPackageName } from "../../npm/install-source.ts";
import { isPythonRequirement } from "../../pypi/requirement.ts";

/** The source from which a server is installed. */
export type ServerOrigin =
  /** A package of npm. `program` is set if the command specifies a program in addition to the package. */
  | { kind: "npm"; spec: string; program?: string }
  /** A console script of a Python package, or one of its modules. */
  | { kind: "pypi"; spec: string; script?: string; module?: string }
  | { kind: "image"; reference: string }
  | { kind: "http"; url: string; headers: Record<string, string> }
  | { kind: "command"; command: string }
  /** A program in this folder, or one that gets files of the folder as arguments. */
  | { kind: "files"; folder: string; command: string };

export interface ServerCommand {
  from: ServerOrigin;
  /** Arguments of the server itself. */
  args: string[];
  /** Variables that the command sets; a value `${NAME}` comes from the environment of whoever starts it. */
  env?: Record<string, string>;
  mounts?: RequestedMount[];
  ignored?: IgnoredFlag[];
}

/** A flag of the command that has no effect here and that its author may rely on. */
export interface IgnoredFlag {
  flag: string;
  reason: string;
}

/** A folder of the host that a server requests. An operator has to grant it. */
export interface RequestedMount {
  source: string;
  target: string;
  writable: boolean;
}

/**
 * Throws package.invalid with the name of the server, or plugin.source_invalid for an invalid name of an image.
 */
export function readCommand(name: string, command: string, args: readonly string[]): ServerCommand {
  const program = command.replace(/\.(?:cmd|exe)$/, "");
  if (program === "npx" || program === "bunx") return readNpx(name, args);
  if (program === "uvx") return readUvx(name, "uvx", args);
  if (program === "uv" && args[0] === "tool" && args[1] === "run")
    return readUvx(name, "uv tool run", args.slice(2));
  if (program === "pipx" && args[0] === "run") return readPipx(name, args.slice(1));
  if ((program === "docker" || program === "podman") && args[0] === "run")
    return readDocker(name, program, args.slice(1));
  const module =
    /^python(?:3(?:\.\d+)?)?$/.test(program) && args[0] === "-m" ? findPublishedModule(args[1]) : null;
  if (module !== null) return { from: module, args: args.slice(2) };
  if (command.includes("/") || command.includes("\\")) {
    throw invalid(
      `${name} starts ${command}, a file on this machine that is not visible in the sandbox`,
      "Put the program into its own package with a vai-plugin.toml, or into /usr/local/bin on the PATH.",
    );
  }
  return { from: { kind: "command", command }, args: [...args] };
}

function readNpx(name: string, args: readonly string[]): ServerCommand {
  const flags = { package: ["-p", "--package"], ignored: ["-y", "--yes", "-q", "--quiet"] };
  const { flag_values, rest } = readFlags(name, "npx", args, {
    values: flags.package,
    ignored: flags.ignored,
  });
  const next = rest.shift();
  // With --package, the next argument is a program of the package.
  const package_spec = flag_values.get("-p") ?? flag_values.get("--package");
  const spec = package_spec ?? next;
  const at = spec?.lastIndexOf("@") ?? -1;
  if (spec === undefined || !isPackageName(at > 0 ? spec.slice(0, at) : spec)) {
    throw invalid(`${name} calls npx without a package name`);
  }
  const program = package_spec === undefined ? undefined : next;
  return { from: { kind: "npm", spec, ...(program === undefined ? {} : { program }) }, args: rest };
}

const OTHER_INDEX = "the gateway uses one index ([pypi] index_url in backplane.toml)";
const OTHER_PYTHON = "the server runs with the python3 that plugins run with";
const MORE_PACKAGES = "the package is installed with its own dependencies only";
/** Why a flag of uvx or pipx is refused. */
const PYTHON_REASONS: Record<string, string> = {
  "--python": OTHER_PYTHON,
  "-p": OTHER_PYTHON,
  "--with": MORE_PACKAGES,
  "-w": MORE_PACKAGES,
  "--with-requirements": MORE_PACKAGES,
  "--with-editable": MORE_PACKAGES,
  "--index": OTHER_INDEX,
  "--index-url": OTHER_INDEX,
  "-i": OTHER_INDEX,
  "--extra-index-url": OTHER_INDEX,
  "--default-index": OTHER_INDEX,
  "--find-links": OTHER_INDEX,
  "-f": OTHER_INDEX,
  "--pip-args": "the gateway chooses how pip is called",
  "--prerelease": "specify the version instead: NAME==VERSION",
  "--env-file": "the file is not part of the mcp.json; write its variables as env",
  "--directory": "the server has its own working folder",
};

/** Flags of uvx that have no effect here, such as those for caching and output. */
const UVX_IGNORED = [
  "--no-progress",
  "--no-config",
  "--native-tls",
  "-q",
  "--quiet",
  "-v",
  "--verbose",
  "-n",
  "--no-cache",
  "--isolated",
  "--refresh",
  "-U",
  "--upgrade",
];

function readUvx(name: string, program: string, args: readonly string[]): ServerCommand {
  const { flag_values, rest } = readFlags(name, program, args, {
    values: ["--from"],
    ignored: UVX_IGNORED,
    reasons: PYTHON_REASONS,
  });
  return buildPythonCommand(name, program, flag_values.get("--from"), rest);
}

function readPipx(name: string, args: readonly string[]): ServerCommand {
  const ignored = ["-q", "--quiet", "--verbose", "--no-cache"];
  const { flag_values, rest } = readFlags(name, "pipx run", args, {
    values: ["--spec"],
    ignored,
    reasons: PYTHON_REASONS,
  });
  return buildPythonCommand(name, "pipx run", flag_values.get("--spec"), rest);
}

/** `from` is the package if the first argument is only the name of its program. */
function buildPythonCommand(
  name: string,
  program: string,
  from: string | undefined,
  [first, ...args]: readonly string[],
): ServerCommand {
  if (first === undefined) throw invalid(`${name} calls ${program} without a package name`);
  const spec = from ?? first;
  if (!isPythonRequirement(spec)) {
    throw invalid(
      `${name} calls ${program} with ${spec}, which is not NAME or NAME==VERSION of the Python index`,
      "Install a published version. URLs, git, paths and version ranges are not accepted.",
    );
  }
  return { from: { kind: "pypi", spec, ...(from === undefined ? {} : { script: first }) }, args };
}

/**
 * `python -m mcp_server_time` starts a package that was installed with pip beforehand. Modules of servers are
 * named like their packages; any other module is left to the Python of the host.
 */
function findPublishedModule(module: string | undefined): ServerOrigin | null {
  if (module === undefined || !/^(?:[a-z0-9]+_)*mcp(?:_[a-z0-9]+)*$/.test(module)) return null;
  return { kind: "pypi", spec: module.replaceAll("_", "-"), module };
}

/** Flags of `docker run` that have no meaning here: the sandbox is always removed, and its input is always open. */
const DOCKER_IGNORED = ["-i", "--interactive", "--rm", "--init", "-q", "--quiet"];

const GATEWAY_STARTS = "the gateway decides when the server runs";
const LIMITS = "the limits of the sandbox apply ([sandbox.package_limits] in backplane.toml)";
const NETWORK = "the policy of the binding decides what the server may reach (--domains)";
const NO_PORTS = "no port of the server can be reached from outside";
const STRICTER = "the sandbox is at least as strict";
const NO_TERMINAL = "a terminal would break the protocol of the server";
const NO_RIGHTS = "a server never gets privileges on the host";
const ONE_USER = "a server always runs as an unprivileged user";

/** Flags with a value that have no effect and are reported, with the reason. */
const DOCKER_REPORTED: Record<string, string> = {
  "--name": GATEWAY_STARTS,
  "--restart": GATEWAY_STARTS,
  "--stop-timeout": GATEWAY_STARTS,
  "--stop-signal": GATEWAY_STARTS,
  "--pull": "an image is pulled once, when it is installed",
  "--platform": "the image for the platform of this machine is used",
  "--label": "there is no container to describe",
  "-l": "there is no container to describe",
  "--hostname": "the sandbox has its own name",
  "-h": "the sandbox has its own name",
  "--log-driver": "the gateway keeps the log of the server",
  "--log-opt": "the gateway keeps the log of the server",
  "--publish": NO_PORTS,
  "-p": NO_PORTS,
  "--expose": NO_PORTS,
  "--memory": LIMITS,
  "-m": LIMITS,
  "--memory-swap": LIMITS,
  "--cpus": LIMITS,
  "--cpu-shares": LIMITS,
  "--pids-limit": LIMITS,
  "--ulimit": LIMITS,
  "--shm-size": LIMITS,
  "--cap-drop": STRICTER,
  "--security-opt": STRICTER,
};
/** Flags without a value that have no effect and are reported, with the reason. */
const DOCKER_REPORTED_SWITCHES: Record<string, string> = {
  "--publish-all": NO_PORTS,
  "-P": NO_PORTS,
  "--read-only": STRICTER,
};
const DOCKER_REASONS: Record<string, string> = {
  "-t": NO_TERMINAL,
  "--tty": NO_TERMINAL,
  "-d": "the gateway speaks to the server through its input and output",
  "--detach": "the gateway speaks to the server through its input and output",
  "--network": NETWORK,
  "--net": NETWORK,
  "--add-host": NETWORK,
  "--dns": NETWORK,
  "--link": NETWORK,
  "--privileged": NO_RIGHTS,
  "--cap-add": NO_RIGHTS,
  "--device": NO_RIGHTS,
  "--gpus": NO_RIGHTS,
  "--pid": NO_RIGHTS,
  "--ipc": NO_RIGHTS,
  "--userns": NO_RIGHTS,
  "--group-add": ONE_USER,
  "--user": ONE_USER,
  "-u": ONE_USER,
  "--env-file": "the file is not part of the mcp.json; write its variables as -e NAME=VALUE or as env",
  "--entrypoint": "the server starts as the image specifies; arguments after the image replace its command",
  "--workdir": "the server starts in the folder that the image specifies",
  "-w": "the server starts in the folder that the image specifies",
  "--tmpfs": "the server has a scratch folder at /tmp",
  "--volumes-from": "there is no other container",
};

function readDocker(name: string, program: string, args: readonly string[]): ServerCommand {
  const env: Record<string, string> = {};
  const mounts: RequestedMount[] = [];
  const ignored: IgnoredFlag[] = [];
  const rest = [...args];
  while (rest.length > 0 && rest[0]!.startsWith("-")) {
    const word = rest.shift()!;
    // Short flags without values may be combined, such as -it.
    if (/^-[itdqP]{2,}$/.test(word)) {
      rest.unshift(
        ...word
          .slice(1)
          .split("")
          .map((letter) => `-${letter}`),
      );
      continue;
    }
    if (DOCKER_IGNORED.includes(word.replace(/=true$/, ""))) continue;
    const [, flag = word, attached] =
      /^(--[^=]+)=(.*)$/s.exec(word) ?? /^(-[evphlmuw])(.+)$/s.exec(word) ?? [];
    const readValue = () => attached ?? rest.shift() ?? "";
    const [reported, without_value] = [DOCKER_REPORTED[flag], DOCKER_REPORTED_SWITCHES[flag]];
    const has_no_network = (flag === "--network" || flag === "--net") && (attached ?? rest[0]) === "none";
    if (reported !== undefined || has_no_network) {
      readValue();
      ignored.push({ flag, reason: reported ?? NETWORK });
    } else if (without_value !== undefined) ignored.push({ flag, reason: without_value });
    else if (flag === "-e" || flag === "--env") {
      const [variable = "", ...value] = readValue().split("=");
      env[variable] = value.length === 0 ? `\${${variable}}` : value.join("=");
    } else if (flag === "-v" || flag === "--volume") mounts.push(readVolume(name, readValue()));
    else if (flag === "--mount") mounts.push(readBind(name, readValue()));
    else {
      const reason = reasonSuffix(DOCKER_REASONS[flag]);
      throw invalid(`${name} calls ${program} run with ${flag}, which is not supported${reason}`);
    }
  }
  const reference = rest.shift();
  if (reference === undefined) throw invalid(`${name} calls ${program} run without an image`);
  parseImageReference(reference);
  return {
    from: { kind: "image", reference },
    args: rest,
    env,
    ...(mounts.length === 0 ? {} : { mounts }),
    ...(ignored.length === 0 ? {} : { ignored }),
  };
}

/** `SOURCE:TARGET[:OPTIONS]` */
function readVolume(name: string, text: string): RequestedMount {
  const [source = "", target = "", options = ""] = text.split(":");
  return checkMount(name, { source, target, writable: !options.split(",").includes("ro") });
}

/** `type=bind,src=SOURCE,dst=TARGET[,readonly]` */
function readBind(name: string, text: string): RequestedMount {
  const fields = new Map(
    text.split(",").map((field): [string, string] => {
      const [key = "", ...value] = field.split("=");
      return [key, value.join("=")];
    }),
  );
  if (fields.get("type") !== "bind") throw invalid(`${name} mounts ${text}, but only type=bind is supported`);
  const source = fields.get("src") ?? fields.get("source") ?? "";
  const target = fields.get("dst") ?? fields.get("target") ?? fields.get("destination") ?? "";
  return checkMount(name, { source, target, writable: !fields.has("readonly") && !fields.has("ro") });
}

function checkMount(name: string, mount: RequestedMount): RequestedMount {
  if (mount.source.includes("/") && mount.target.startsWith("/")) return mount;
  throw invalid(
    mount.source.includes("/")
      ? `${name} mounts ${mount.source} at ${JSON.stringify(mount.target)}, which is not an absolute path`
      : `${name} mounts ${JSON.stringify(mount.source)}, which is not a folder of this machine`,
    "Specify the folder and an absolute path, or leave the volume out: the server has a scratch folder at /tmp.",
  );
}

/** Reads the flags before the first argument. */
function readFlags(
  name: string,
  program: string,
  args: readonly string[],
  {
    values,
    ignored,
    reasons = {},
  }: { values: readonly string[]; ignored: readonly string[]; reasons?: Record<string, string> },
): { flag_values: Map<string, string>; rest: string[] } {
  const flag_values = new Map<string, string>();
  const rest = [...args];
  while (rest.length > 0 && rest[0]!.startsWith("-")) {
    const flag = rest.shift()!;
    const [, long = flag, value] = /^(--[^=]+)=(.*)$/s.exec(flag) ?? [];
    if (values.includes(long)) flag_values.set(long, value ?? rest.shift() ?? "");
    else if (!ignored.includes(flag))
      throw invalid(
        `${name} calls ${program} with ${long}, which is not supported${reasonSuffix(reasons[long])}`,
      );
  }
  return { flag_values, rest };
}

function reasonSuffix(reason: string | undefined): string {
  return reason === undefined ? "" : `: ${reason}`;
}

function invalid(problem: string, fix?: string): BackplaneError {
  return new BackplaneError("package.invalid", `${problem}.`, fix === undefined ? {} : { fix });
}
