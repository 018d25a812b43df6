/** Rules for a manifest beyond its schema. Each rule checks a manifest that the schema has accepted. */
import { isRemoteProtocol, isSelfDescribing, type Manifest } from "@backplane/contract";
import { describeValue, type Finding, transportOf } from "./explain-issue.ts";

type Rule = (manifest: Manifest) => Finding[];

const RULES: readonly Rule[] = [
  checkEntrypointPath,
  checkTransport,
  checkTimeouts,
  checkSideProcessKinds,
  checkSideProcessFields,
  checkImporterFields,
  checkSelfDescribing,
];

export function violationsOf(manifest: Manifest): Finding[] {
  return RULES.flatMap((rule) => rule(manifest));
}

/** A bare name is looked up on the documented PATH; a name with a slash is a file of the package. */
export function isBareName(program: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._+-]*$/.test(program);
}

function checkEntrypointPath(manifest: Manifest): Finding[] {
  const program = manifest.runtime.entrypoint[0] as string;
  if (isRemoteProtocol(manifest.runtime.protocol)) return checkServerUrl(manifest, program);
  const is_inside =
    /^(\.\/)?[^/\\\p{Cc}]+(\/[^/\\\p{Cc}]+)*$/u.test(program) && !program.split("/").includes("..");
  if (isBareName(program) || (program.includes("/") && is_inside)) return [];
  const path = ["runtime", "entrypoint", 0];
  return [
    {
      path,
      message: `${describeValue(path, manifest)}; write a program name such as node or python3, or a path inside the package such as ./bin/plugin`,
    },
  ];
}

function checkServerUrl(manifest: Manifest, program: string): Finding[] {
  const url = URL.canParse(program) ? new URL(program) : null;
  const usable = url !== null && /^https?:$/.test(url.protocol) && url.username === "";
  if (usable && manifest.runtime.entrypoint.length === 1) return [];
  const path = ["runtime", "entrypoint", 0];
  return [
    {
      path,
      message: `${describeValue(path, manifest)}; write the URL of the server, such as https://host/mcp`,
    },
  ];
}

function checkTransport(manifest: Manifest): Finding[] {
  const needed = transportOf(manifest.runtime.protocol);
  if (manifest.runtime.transport === needed) return [];
  const path = ["runtime", "transport"];
  return [
    {
      path,
      message: `${describeValue(path, manifest)}, but protocol is "${manifest.runtime.protocol}"; write "${needed}"`,
    },
  ];
}

function checkTimeouts(manifest: Manifest): Finding[] {
  return manifest.exports.flatMap((item, index) => {
    if (item.max_timeout_ms === undefined || item.default_timeout_ms <= item.max_timeout_ms) return [];
    const path = ["exports", index, "default_timeout_ms"];
    return [
      {
        path,
        message: `${describeValue(path, manifest)}; write at most ${item.max_timeout_ms}, its max_timeout_ms`,
      },
    ];
  });
}

function checkSideProcessKinds(manifest: Manifest): Finding[] {
  if (manifest.runtime.protocol !== "rterm.plugin.v1") return [];
  return manifest.exports.flatMap((item, index) => {
    if (item.kind === "tool") return [];
    const path = ["exports", index, "kind"];
    return [
      {
        path,
        message: `${describeValue(path, manifest)}, but protocol "rterm.plugin.v1" offers only tools; write "tool" or use protocol "vai.rpc.v1"`,
      },
    ];
  });
}

/** Only side processes use these fields. In other dialects authors name exports, or the process describes its tools. */
function checkSideProcessFields(manifest: Manifest): Finding[] {
  const { protocol, plugin_id } = manifest.runtime;
  if (protocol === "rterm.plugin.v1") return [];
  const paths: (string | number)[][] = plugin_id === undefined ? [] : [["runtime", "plugin_id"]];
  for (const [index, item] of manifest.exports.entries()) {
    if (item.kind === "tool" && item.tool.tool_name !== undefined) {
      paths.push(["exports", index, "tool", "tool_name"]);
    }
  }
  return paths.map((path) => ({
    path,
    message: `${describeValue(path, manifest)}, but protocol is "${protocol}" and only "rterm.plugin.v1" uses this field; remove it`,
  }));
}

/** Fields that only importers and descriptions may set. */
function checkImporterFields(manifest: Manifest): Finding[] {
  const image: Finding[] =
    manifest.runtime.image === undefined
      ? []
      : [{ path: ["runtime", "image"], message: "runtime.image is set only by the gateway; remove it" }];
  const tools = manifest.exports.flatMap((item, index) => {
    if (item.kind !== "tool") return [];
    const fields = (["hints", "rules", "native_name", "param_headers", "load_error"] as const).filter(
      (field) => item.tool[field] !== undefined,
    );
    return fields.map((field) => {
      const path = ["exports", index, "tool", field];
      return { path, message: `${describeValue(path, manifest)}, which only the gateway sets; remove it` };
    });
  });
  return [...image, ...tools];
}

function checkSelfDescribing({ runtime, exports }: Manifest): Finding[] {
  const is_self_describing = isSelfDescribing(runtime.protocol);
  const findings: Finding[] = [];
  if (!is_self_describing && runtime.permissions !== undefined) {
    const message = `runtime.permissions is not a field of a ${runtime.protocol} package; move the permissions to each export`;
    findings.push({ path: ["runtime", "permissions"], message });
  }
  if (is_self_describing && exports.length > 0) {
    const message = `a ${runtime.protocol} package is asked for its tools when it runs; remove the exports`;
    findings.push({ path: ["exports"], message });
  }
  return findings;
}
