/**
 * Names, requirements and versions of Python packages. A `pypi:` source is a project of the index, optionally with
 * extras and an exact version; nothing else is accepted.
 */
import { BackplaneError } from "@backplane/contract";

export interface PythonRequirement {
  /** Normalized according to PEP 503. */
  name: string;
  /** The requirement as pip reads it, such as `mcp[cli]==1.2.0`. */
  requirement: string;
  /** Null for the newest. */
  version: string | null;
}

const NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?";
const VERSION = "(?:\\d+!)?\\d+(?:\\.\\d+)*(?:[A-Za-z0-9._+-]*[A-Za-z0-9])?";
const SPEC = new RegExp(
  `^(?<name>${NAME})(?:\\[(?<extras>${NAME}(?:,${NAME})*)\\])?(?:(?:==|@)(?<version>latest|${VERSION}))?$`,
);

/** `NAME`, `NAME==VERSION` or, as uvx writes it, `NAME@VERSION`, each with optional extras. */
export function parsePythonRequirement(spec: string): PythonRequirement {
  const match = spec.length > 256 ? null : SPEC.exec(spec);
  if (match === null) {
    throw new BackplaneError(
      "plugin.source_invalid",
      `${JSON.stringify(spec.slice(0, 80))} is not the name of a package in the Python index.`,
      { fix: "Write pypi:NAME or pypi:NAME==VERSION. URLs, git and version ranges are not accepted." },
    );
  }
  const { name = "", extras, version = "latest" } = match.groups as Record<string, string | undefined>;
  const exact = version === "latest" ? null : version;
  return {
    name: normalizeProject(name),
    version: exact,
    requirement: `${normalizeProject(name)}${extras === undefined ? "" : `[${extras}]`}${exact === null ? "" : `==${exact}`}`,
  };
}

export function isPythonRequirement(spec: string): boolean {
  return spec.length <= 256 && SPEC.test(spec);
}

const CLAUSE = "(?:===|~=|==|!=|<=|>=|<|>)\\s*[A-Za-z0-9._*+!-]+";
const CLAUSES = `${CLAUSE}(?:\\s*,\\s*${CLAUSE})*,?`;
const BUILD_REQUIREMENT = new RegExp(
  `^\\s*${NAME}\\s*(?:\\[\\s*(?:${NAME}(?:\\s*,\\s*${NAME})*)?\\s*\\])?\\s*(?:${CLAUSES}|\\(\\s*${CLAUSES}\\s*\\))?\\s*(?:;[\\w\\s.'"()<>=!~,+*-]+)?$`,
);

/** Whether an author's requirement follows PEP 508, with version ranges and markers but without a URL. */
export function isBuildRequirement(text: string): boolean {
  return text.length <= 500 && BUILD_REQUIREMENT.test(text);
}

/** PEP 503: names that differ only in case or in the separator are the same project. */
export function normalizeProject(name: string): string {
  return name.toLowerCase().replace(/[-_.]+/g, "-");
}

const PRE_RELEASES: Record<string, string> = { a: "alpha", alpha: "alpha", b: "beta", beta: "beta" };

/**
 * Converts a Python version to a semantic version. `1.2` becomes `1.2.0` and `2rc1` becomes `2.0.0-rc.1`; parts that a
 * semantic version does not have, such as `.post1`, become build metadata. Different versions usually stay different.
 */
export function semanticVersionOf(version: string): string {
  const match =
    /^v?(?:(?<epoch>\d+)!)?(?<release>\d+(?:\.\d+)*)(?:[-_.]?(?<pre>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?<number>\d*))?(?<rest>.*)$/i.exec(
      version,
    );
  const groups = (match?.groups ?? {}) as Record<string, string | undefined>;
  const [major = 0, minor = 0, patch = 0, ...more] = (groups.release ?? "0").split(".").map(Number);
  const pre = groups.pre?.toLowerCase();
  const build = [
    ...(groups.epoch === undefined ? [] : ["epoch", groups.epoch]),
    ...more.map(String),
    ...(groups.rest ?? "").split(/[^0-9A-Za-z]+/).filter((part) => part !== ""),
  ];
  return [
    `${major}.${minor}.${patch}`,
    pre === undefined ? "" : `-${PRE_RELEASES[pre] ?? "rc"}.${Number(groups.number || "0")}`,
    build.length === 0 ? "" : `+${build.join(".")}`,
  ].join("");
}
