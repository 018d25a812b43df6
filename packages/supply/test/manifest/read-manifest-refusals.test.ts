/** A manifest error names the file, the line and what to write instead. */
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { MINIMAL, refusalOf, replaceInMinimal } from "./minimal-manifest.ts";

const EVENTS =
  "run.started, run.completed, run.failed, run.cancelled, chain.created, chain.forked, chain.compacted, session.created, session.archived, invocation.settled, approval.requested, approval.resolved, package.installed, binding.changed";

const SCOPES =
  "sessions:read, sessions:write, chains:read, chains:write, runs:read, runs:write, compactions:read, compactions:write, tools:invoke, llm:invoke";

const INVALID_MANIFESTS: [name: string, toml: () => string, message: string][] = [
  [
    "an invalid api version",
    () => replaceInMinimal('"vai.plugin.v1"', '"vai.plugin.v2"'),
    '1: api_version is "vai.plugin.v2"; write "vai.plugin.v1"',
  ],
  [
    "a missing api version",
    () => replaceInMinimal('api_version = "vai.plugin.v1"\n', ""),
    '1: api_version is missing; write "vai.plugin.v1"',
  ],
  [
    "an upper-case package id",
    () => replaceInMinimal("acme/hello", "Acme/Hello"),
    '2: package_id is "Acme/Hello"; write publisher/name in lower case, such as acme/devkit',
  ],
  [
    "a missing package id",
    () => replaceInMinimal('package_id = "acme/hello"\n', ""),
    '1: package_id is missing; write package_id = "publisher/name", such as "acme/devkit"',
  ],
  [
    "an invalid version",
    () => replaceInMinimal('"0.1.0"', '"1.0"'),
    '3: version is "1.0"; write a semantic version, such as 0.1.0',
  ],
  [
    "a version as a number",
    () => replaceInMinimal('"0.1.0"', "1.5"),
    '3: version is 1.5; write a string in quotes, such as "…"',
  ],
  [
    "a missing name",
    () => replaceInMinimal('name = "Hello"\n', ""),
    '1: name is missing; write name = "…", the display name',
  ],
  [
    "an unknown field",
    () => replaceInMinimal('name = "Hello"', 'name = "Hello"\nauthor = "x"'),
    "5: author is not a known field; remove it; known fields are api_version, package_id, version, name, description, license, source, runtime, exports, skills",
  ],
  [
    "a misspelled field",
    () => replaceInMinimal('name = "Hello"', 'name = "Hello"\nlicence = "MIT"'),
    "5: licence is not a known field; write license",
  ],
  [
    "no runtime",
    () => MINIMAL.replace(/\[runtime\]\n.*\n.*\n/, ""),
    "1: runtime is missing; write a [runtime] table with protocol and entrypoint",
  ],
  [
    "an unknown protocol",
    () => replaceInMinimal("vai.rpc.v1", "vai.rpc.v9"),
    '7: runtime.protocol is "vai.rpc.v9"; write one of vai.rpc.v1, rterm.plugin.v1, hefty.jsonrpc, mcp.stdio, mcp.http, module.tools, module.instrument, module.kernel, skills',
  ],
  [
    "a misspelled runtime field",
    () => replaceInMinimal("protocol =", "protocl ="),
    "6: runtime.protocol is missing; write one of vai.rpc.v1, rterm.plugin.v1, hefty.jsonrpc, mcp.stdio, mcp.http, module.tools, module.instrument, module.kernel, skills (and 1 more, see details.issues)",
  ],
  [
    "an invalid transport",
    () => replaceInMinimal('"./bin/plugin"]', '"./bin/plugin"]\ntransport = "pipe"'),
    '9: runtime.transport is "pipe"; write "stdio"',
  ],
  [
    "an invalid transport of a remote server",
    () =>
      replaceInMinimal("vai.rpc.v1", "mcp.http").replace(
        '["./bin/plugin"]',
        '["https://mcp.example.com/mcp"]\ntransport = "tcp"',
      ),
    '9: runtime.transport is "tcp"; write "http"',
  ],
  [
    "a remote server without its URL",
    () => replaceInMinimal("vai.rpc.v1", "mcp.http").replace('entrypoint = ["./bin/plugin"]\n', ""),
    '6: runtime.entrypoint is missing; write entrypoint = ["https://host/mcp"], the URL of the server',
  ],
  [
    "an unknown kind of export of a side process",
    () => replaceInMinimal("vai.rpc.v1", "rterm.plugin.v1").replace('kind = "tool"', 'kind = "skill"'),
    '12: exports[0].kind is "skill"; write "tool"',
  ],
  [
    "a transport of another protocol",
    () => replaceInMinimal('"./bin/plugin"]', '"./bin/plugin"]\ntransport = "http"'),
    '9: runtime.transport is "http", but protocol is "vai.rpc.v1"; write "stdio"',
  ],
  [
    "an empty entrypoint",
    () => replaceInMinimal('["./bin/plugin"]', "[]"),
    "8: runtime.entrypoint is []; specify the program to start",
  ],
  [
    "an entrypoint as a string",
    () => replaceInMinimal('["./bin/plugin"]', '"./bin/plugin"'),
    '8: runtime.entrypoint is "./bin/plugin"; write a list, such as [ … ]',
  ],
  [
    "an absolute entrypoint",
    () => replaceInMinimal("./bin/plugin", "/usr/bin/env"),
    '8: runtime.entrypoint[0] is "/usr/bin/env"; write a program name such as node or python3, or a path inside the package such as ./bin/plugin',
  ],
  [
    "an entrypoint outside the package",
    () => replaceInMinimal("./bin/plugin", "./bin/../../x"),
    '8: runtime.entrypoint[0] is "./bin/../../x"; write a program name such as node or python3, or a path inside the package such as ./bin/plugin',
  ],
  [
    "an unknown operating system",
    () => replaceInMinimal('["./bin/plugin"]', '["./bin/plugin"]\nos = [\n  "linux",\n  "bsd",\n]'),
    '11: runtime.os[1] is "bsd"; write one of linux, darwin, windows',
  ],
  [
    "an architecture named twice",
    () => replaceInMinimal('["./bin/plugin"]', '["./bin/plugin"]\narch = ["amd64", "amd64"]'),
    '9: runtime.arch is ["amd64","amd64"]; list each value once',
  ],
  [
    "an invalid variable name",
    () => replaceInMinimal('["./bin/plugin"]', '["./bin/plugin"]\nenv = { "A-B" = "x" }'),
    '9: runtime.env has a variable named "A-B"; a variable name may contain only letters, digits and _, and must not start with a digit',
  ],
  [
    "an unknown kind",
    () => replaceInMinimal('kind = "tool"', 'kind = "tol"'),
    '12: exports[0].kind is "tol"; write one of tool, hook, compactor, harness',
  ],
  [
    "no kind",
    () => replaceInMinimal('kind = "tool"\n', ""),
    "10: exports[0].kind is missing; write one of tool, hook, compactor, harness",
  ],
  [
    "no id",
    () => replaceInMinimal('id = "greet"\n', ""),
    '10: exports[0].id is missing; write id = "my_tool"',
  ],
  [
    "an id that starts with a digit",
    () => replaceInMinimal('"greet"', '"1greet"'),
    '11: exports[0].id is "1greet"; start with a letter, then letters, digits, _ and -',
  ],
  [
    "no exports",
    () => MINIMAL.slice(0, MINIMAL.indexOf("[[exports]]")),
    "1: exports is missing; write at least one [[exports]] table",
  ],
  [
    "two exports with one id",
    () => `${MINIMAL}\n[[exports]]\nid = "greet"\nkind = "tool"\ntool = {}\n`,
    '18: exports[1].id is "greet", as in exports[0]; give each export its own id',
  ],
  [
    "no table for the kind of an export",
    () => replaceInMinimal('[exports.tool]\neffect_class = "read_only"\n', ""),
    "10: exports[0].tool is missing; write an [exports.tool] table",
  ],
  [
    "a field in the wrong table",
    () => replaceInMinimal('kind = "tool"', 'kind = "tool"\nstreaming = true'),
    "13: exports[0].streaming is not a field here; write it in the table [exports.tool]",
  ],
  [
    "an invalid effect class",
    () => replaceInMinimal('"read_only"', '"readonly"'),
    '15: exports[0].tool.effect_class is "readonly"; write one of read_only, idempotent_write, non_idempotent_write, unknown',
  ],
  [
    "a boolean in quotes",
    () => `${MINIMAL}streaming = "yes"\n`,
    '16: exports[0].tool.streaming is "yes"; write true or false',
  ],
  [
    "a timeout of zero",
    () => replaceInMinimal('kind = "tool"', 'kind = "tool"\ndefault_timeout_ms = 0'),
    "13: exports[0].default_timeout_ms is 0; write at least 1",
  ],
  [
    "a timeout with a fraction",
    () => replaceInMinimal('kind = "tool"', 'kind = "tool"\ndefault_timeout_ms = 1.5'),
    "13: exports[0].default_timeout_ms is 1.5; write a whole number",
  ],
  [
    "a timeout above its own maximum",
    () =>
      replaceInMinimal('kind = "tool"', 'kind = "tool"\ndefault_timeout_ms = 5000\nmax_timeout_ms = 1000'),
    "13: exports[0].default_timeout_ms is 5000; write at most 1000, its max_timeout_ms",
  ],
  [
    "too much concurrency",
    () => replaceInMinimal('kind = "tool"', 'kind = "tool"\nmax_concurrency = 20000'),
    "13: exports[0].max_concurrency is 20000; write at most 10000",
  ],
  [
    "a schema outside the package",
    () => replaceInMinimal('kind = "tool"', 'kind = "tool"\nconfig_schema = "../x.json"'),
    '13: exports[0].config_schema is "../x.json"; specify a file inside the package, such as schemas/config.json',
  ],
  [
    "an unknown network permission",
    () => `${MINIMAL}\n[exports.permissions]\nnetwork = "all"\n`,
    '18: exports[0].permissions.network is "all"; write one of none, egress',
  ],
  [
    "an unknown scope",
    () => `${MINIMAL}\n[exports.permissions]\ngateway_api_scopes = [\n  "runs:read",\n  "admin", # no\n]\n`,
    `20: exports[0].permissions.gateway_api_scopes[1] is "admin"; write one of ${SCOPES}`,
  ],
  [
    "a slot in upper case",
    () => `${MINIMAL}\n[exports.permissions]\nsecret_slots = ["JIRA"]\n`,
    '18: exports[0].permissions.secret_slots[0] is "JIRA"; write a slot in lower case, such as jira_token',
  ],
  [
    "an unknown permission",
    () => `${MINIMAL}\n[exports.permissions]\nnetwrk = "none"\n`,
    "18: exports[0].permissions.netwrk is not a known field; write network",
  ],
  [
    "an unknown event",
    () => `${MINIMAL}\n[[exports]]\nid = "h"\nkind = "hook"\n[exports.hook]\nsubscribes_to = ["run.done"]\n`,
    `21: exports[1].hook.subscribes_to[0] is "run.done"; write one of ${EVENTS}`,
  ],
  [
    "a hook without events",
    () => `${MINIMAL}\n[[exports]]\nid = "h"\nkind = "hook"\nhook = { subscribes_to = [] }\n`,
    "20: exports[1].hook.subscribes_to is []; list at least one event",
  ],
  [
    "an unknown fidelity",
    () => `${MINIMAL}\n[[exports]]\nid = "h"\nkind = "harness"\nharness.fidelity = "exact"\n`,
    '20: exports[1].harness.fidelity is "exact"; write one of lossless, checkpoint, prompt_replay, summary_reseed',
  ],
  [
    "a side process with a hook",
    () =>
      replaceInMinimal("vai.rpc.v1", "rterm.plugin.v1").concat(
        '\n[[exports]]\nid = "h"\nkind = "hook"\nhook = { subscribes_to = ["run.failed"] }\n',
      ),
    '19: exports[1].kind is "hook", but protocol "rterm.plugin.v1" offers only tools; write "tool" or use protocol "vai.rpc.v1"',
  ],
  [
    "a capability with leading white space",
    () => replaceInMinimal('["./bin/plugin"]', '["./bin/plugin"]\ncapabilities = [" net"]'),
    '9: runtime.capabilities[0] is " net"; a capability must not start or end with white space',
  ],
];

describe("reports the file, the line and the fix for a manifest with", () => {
  for (const [name, toml, message] of INVALID_MANIFESTS) {
    verifies("pkg.manifest", name, () => {
      const error = refusalOf(toml());
      expect(error.code).toBe("package.invalid");
      expect(error.message).toBe(`vai-plugin.toml:${message}`);
    });
  }

  test("invalid TOML", () => {
    const error = refusalOf('a = "x"\nb = = 1\n');
    expect(error.code).toBe("package.invalid");
    expect(error.message).toMatch(/^vai-plugin\.toml:2: this is not valid TOML: /);
  });

  test("an invalid transport of an unknown protocol", () => {
    const error = refusalOf(
      replaceInMinimal("vai.rpc.v1", "x").replace('plugin"]', 'plugin"]\ntransport = "tcp"'),
    );
    expect(error.details.issues.map(({ message }) => message)).toContain(
      'runtime.transport is "tcp"; write one of stdio, http',
    );
  });
});

test("lists all issues of a manifest in the details, sorted by line", () => {
  const error = refusalOf(
    replaceInMinimal('"tool"', '"tool"\nfoo = 1').replace('"0.1.0"', '"x"').replace('"read_only"', "3"),
    "other.toml",
  );
  expect(error.message).toBe(
    'other.toml:3: version is "x"; write a semantic version, such as 0.1.0 (and 2 more, see details.issues)',
  );
  expect(error.details.issues.map(({ path, line }) => [path, line])).toEqual([
    ["version", 3],
    ["exports[0].foo", 13],
    ["exports[0].tool.effect_class", 16],
  ]);
});

test("truncates a long value in the message of an invalid manifest", () => {
  const error = refusalOf(replaceInMinimal('"0.1.0"', `"${"9".repeat(500)}"`));
  expect(error.message.length).toBeLessThan(200);
});
