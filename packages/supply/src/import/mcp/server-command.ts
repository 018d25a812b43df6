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
  | { kind: "npm"; spec: string }
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
  mounts?: AskedMount[];
  /** Flags of the command that have no effect here and that its author may rely on. */
  ignored?: string[];
}

/** A folder of the host that a server asks for. An operator has to grant it. */
export interface AskedMount {
  source: string;
  target: string;
  writable: boolean;
}

/** Throws package.invalid with the name of the server. */
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
    /^python(?:3(?:\.\d+)?)?$/.test(program) && args[0] === "-m" ? publishedModule(args[1]) : null;
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
  // With --package the next argument is the program of the package; its only program is started in any case.
  const next = rest.shift();
  const spec = flag_values.get("-p") ?? flag_values.get("--package") ?? next;
  const at = spec?.lastIndexOf("@") ?? -1;
  if (spec === undefined || !isPackageName(at > 0 ? spec.slice(0, at) : spec)) {
    throw invalid(`${name} calls npx without a package name`);
  }
  return { from: { kind: "npm", spec }, args: rest };
}

/** Flags of uvx that change only caching and output. */
const UVX_IGNORED = [
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
  const { flag_values, rest } = readFlags(name, program, args, { values: ["--from"], ignored: UVX_IGNORED });
  return pythonCommand(name, program, flag_values.get("--from"), rest);
}

function readPipx(name: string, args: readonly string[]): ServerCommand {
  const ignored = ["-q", "--quiet", "--verbose", "--no-cache"];
  const { flag_values, rest } = readFlags(name, "pipx run", args, { values: ["--spec"], ignored });
  return pythonCommand(name, "pipx run", flag_values.get("--spec"), rest);
}

/** `from` is the package, if the first argument is only the program. */
function pythonCommand(
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
 * `python -m mcp_server_time` starts a package that was installed with pip before. Servers are named like their packages;
 * other modules are left to the Python of the host.
 */
function publishedModule(module: string | undefined): ServerOrigin | null {
  if (module === undefined || !/^(?:[a-z0-9]+_)*mcp(?:_[a-z0-9]+)*$/.test(module)) return null;
  return { kind: "pypi", spec: module.replaceAll("_", "-"), module };
}

/** Flags of `docker run` that have no meaning here: the sandbox is always removed, and its input is always open. */
const DOCKER_IGNORED = ["-i", "--interactive", "--rm", "--init", "-q", "--quiet"];
/** The pool decides when a process starts, and an image is pulled once, when it is installed. */
const DOCKER_REPORTED_VALUES = ["--name", "--pull", "--restart"];
const DOCKER_REASONS: Record<string, string> = {
  "-t": "a terminal would break the protocol of the server",
  "--tty": "a terminal would break the protocol of the server",
  "--network": "the policy of the binding decides what the server may reach (--domains)",
  "--net": "the policy of the binding decides what the server may reach (--domains)",
  "--privileged": "a server never gets the rights of the host",
  "--user": "a server always runs as a user without rights",
  "-u": "a server always runs as a user without rights",
};

function readDocker(name: string, program: string, args: readonly string[]): ServerCommand {
  const env: Record<string, string> = {};
  const mounts: AskedMount[] = [];
  const ignored: string[] = [];
  const rest = [...args];
  while (rest.length > 0 && rest[0]!.startsWith("-")) {
    const word = rest.shift()!;
    // Short flags without values may be combined, such as -it.
    if (/^-[it]{2,}$/.test(word)) {
      rest.unshift(
        ...word
          .slice(1)
          .split("")
          .map((letter) => `-${letter}`),
      );
      continue;
    }
    if (DOCKER_IGNORED.includes(word)) continue;
    const [, flag = word, attached] = /^(--[^=]+)=(.*)$/s.exec(word) ?? /^(-[ev])(.+)$/s.exec(word) ?? [];
    const readValue = () => attached ?? rest.shift() ?? "";
    if (DOCKER_REPORTED_VALUES.includes(flag)) {
      readValue();
      ignored.push(flag);
    } else if (flag === "-e" || flag === "--env") {
      const [variable = "", ...value] = readValue().split("=");
      env[variable] = value.length === 0 ? `\${${variable}}` : value.join("=");
    } else if (flag === "-v" || flag === "--volume") mounts.push(readVolume(name, readValue()));
    else if (flag === "--mount") mounts.push(readBind(name, readValue()));
    else {
      const reason = DOCKER_REASONS[flag] === undefined ? "" : `: ${DOCKER_REASONS[flag]}`;
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
function readVolume(name: string, text: string): AskedMount {
  const [source = "", target = "", options = ""] = text.split(":");
  return checkMount(name, { source, target, writable: !options.split(",").includes("ro") });
}

/** `type=bind,src=SOURCE,dst=TARGET[,readonly]` */
function readBind(name: string, text: string): AskedMount {
  const fields = new Map(
    text.split(",").map((field): [string, string] => {
      const [key = "", ...value] = field.split("=");
      return [key, value.join("=")];
    }),
  );
  if (fields.get("type") !== "bind") throw invalid(`${name} mounts ${text}, and only type=bind is supported`);
  const source = fields.get("src") ?? fields.get("source") ?? "";
  const target = fields.get("dst") ?? fields.get("target") ?? fields.get("destination") ?? "";
  return checkMount(name, { source, target, writable: !fields.has("readonly") && !fields.has("ro") });
}

function checkMount(name: string, mount: AskedMount): AskedMount {
  if (mount.source.includes("/") && mount.target.startsWith("/")) return mount;
  throw invalid(
    `${name} mounts ${mount.source} at ${mount.target}, which is not a folder of this machine`,
    "Name the folder, or leave the volume out: the server has a scratch folder at /tmp.",
  );
}

/** Reads the flags before the first argument. */
function readFlags(
  name: string,
  program: string,
  args: readonly string[],
  { values, ignored }: { values: readonly string[]; ignored: readonly string[] },
): { flag_values: Map<string, string>; rest: string[] } {
  const flag_values = new Map<string, string>();
  const rest = [...args];
  while (rest.length > 0 && rest[0]!.startsWith("-")) {
    const flag = rest.shift()!;
    const [, long = flag, value] = /^(--[^=]+)=(.*)$/s.exec(flag) ?? [];
    if (values.includes(long)) flag_values.set(long, value ?? rest.shift() ?? "");
    else if (!ignored.includes(flag))
      throw invalid(`${name} calls ${program} with ${flag}, which is not supported`);
  }
  return { flag_values, rest };
}

function invalid(problem: string, fix?: string): BackplaneError {
  return new BackplaneError("package.invalid", `${problem}.`, fix === undefined ? {} : { fix });
}
