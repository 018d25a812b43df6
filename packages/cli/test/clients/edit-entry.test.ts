/** Edits of configuration files: only the entry changes, and a file that cannot be edited safely is refused. */
import type { Json, JsonObject } from "@backplane/contract";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  findServerEntry,
  parseClientConfig,
  removeServerEntry,
  setServerEntry,
} from "../../src/clients/edit-entry.ts";
import { formatDiff } from "../../src/clients/file-diff.ts";
import { KNOWN_CLIENTS, readConnection } from "../../src/clients/known-clients.ts";

const ENTRY: JsonObject = { type: "http", url: "http://127.0.0.1:7420/mcp" };

function findClient(name: string) {
  return KNOWN_CLIENTS.find((client) => client.name === name)!;
}
const read = (client: string, text: string | null) => parseClientConfig(findClient(client), "/c", text);
const add = async (client: string, text: string | null, entry: JsonObject = ENTRY) =>
  await setServerEntry(await read(client, text), "backplane", entry);
const remove = async (client: string, text: string) =>
  await removeServerEntry(await read(client, text), "backplane");

const COMMENTED = `{
  // Servers of the team.
  "servers": {
    "files": { "command": "files" }, // keep
    /* the last one */
    "last": {
      "command": "last",
    }, // with a comment
  },
  "inputs": [],
}
`;

describe("JSON", () => {
  verifies(
    "client.connect",
    "adds an entry and keeps comments, trailing commas and the indentation",
    async () => {
      const text = await add("vscode", COMMENTED);
      expect(text).toBe(
        COMMENTED.replace(
          "}, // with a comment\n",
          `}, // with a comment
    "backplane": {
      "type": "http",
      "url": "http://127.0.0.1:7420/mcp"
    },
`,
        ),
      );
      expect(await remove("vscode", text)).toBe(COMMENTED);
    },
  );

  test.each([
    ["the last property without a comma", '{\n\t"mcpServers": {\n\t\t"a": {}\n\t},\n\t"b": 1\n}'],
    ["a comment after the last property", '{\n  "mcpServers": {\n    "a": {} // x\n  }\n}\n'],
    ["CRLF", '{\r\n  "mcpServers": {\r\n    "a": {}\r\n  }\r\n}\r\n'],
    ["one line", '{"mcpServers": {"a": {}}, "z": [1, {"y": "}"}]}'],
    ["an empty object", '{\n  "mcpServers": {},\n  "b": 1\n}\n'],
    ["a byte order mark", '\uFEFF{\n  "mcpServers": {\n    "a": "\\u00e4\\""\n  }\n}\n'],
  ])("restores every byte when an added entry is removed again: %s", async (_case, original) => {
    const after = await add("gemini", original);
    expect(findServerEntry(await read("gemini", after), "backplane")).toEqual(ENTRY);
    expect(await remove("gemini", after)).toBe(original);
  });

  test("removes only the entry when it is first, in the middle or last", async () => {
    const text = (names: string[]) =>
      `{\n  "mcpServers": {\n${names.map((name) => `    "${name}": {}`).join(",\n")}\n  }\n}\n`;
    expect(await remove("cursor", text(["backplane", "b"]))).toBe(text(["b"]));
    expect(await remove("cursor", text(["a", "backplane", "b"]))).toBe(text(["a", "b"]));
    expect(await remove("cursor", text(["a", "backplane"]))).toBe(text(["a"]));
  });

  test("creates missing parent objects, even in a new or an empty file", async () => {
    const written = '{\n  "mcpServers": {\n    "backplane": {}\n  }\n}\n';
    expect(await add("claude", null, {})).toBe(written);
    expect(await add("claude", "", {})).toBe(written);
    expect(await add("claude", '{\n  "theme": "dark"\n}\n', {})).toBe(
      '{\n  "theme": "dark",\n  "mcpServers": {\n    "backplane": {}\n  }\n}\n',
    );
  });

  test("replaces an entry in place", async () => {
    const text = await add(
      "claude",
      '{\n  "mcpServers": {\n    "backplane": { "url": "x" },\n    "b": {}\n  }\n}\n',
    );
    expect(JSON.stringify(JSON.parse(text))).toBe(
      JSON.stringify({ mcpServers: { backplane: ENTRY, b: {} } }),
    );
  });

  verifies("client.connect", "refuses a file that cannot be parsed and reports the line", async () => {
    for (const [client, text, line] of [
      ["claude", '{\n  "a": 1,\n  "b" 2\n}', 3],
      ["claude", "{\n  // no comments here\n}", 2],
      ["claude", '{\n  "a": 1,\n}', 3],
      ["vscode", '{\n  "a": "open\n}', 2],
      ["vscode", "{}\n{}", 2],
      ["vscode", "[]", 1],
      ["vscode", '{\n\n  "a": 01\n}', 3],
      ["codex", "a = 1\nb = = 2\n", 2],
    ] as const) {
      await expect(read(client, text), text).rejects.toMatchObject({
        code: "client.config_invalid",
        message: expect.stringContaining(`line ${line} `),
      });
    }
    await expect(read("vscode", `{"a": ${"[".repeat(100_000)}`)).rejects.toMatchObject({
      code: "client.config_invalid",
    });
  });

  test("refuses servers that are not an object, and an entry that occurs twice", async () => {
    await expect(add("claude", '{"mcpServers": []}')).rejects.toMatchObject({
      code: "client.config_invalid",
    });
    const twice = '{"mcpServers": {"backplane": {"a": 1}, "backplane": {"b": 2}}}';
    await expect(remove("claude", twice)).rejects.toMatchObject({ code: "client.config_invalid" });
  });

  test("keeps a property named __proto__", async () => {
    const original = '{\n  "__proto__": {\n    "a": 1\n  },\n  "mcpServers": {\n    "x": {}\n  }\n}\n';
    expect(await remove("claude", await add("claude", original))).toBe(original);
  });

  test("uses mcp.servers of OpenCode 2 only in a file that has it", async () => {
    const opencode_2 =
      '{\n  "mcp": {\n    "servers": {\n      "a": { "type": "remote", "url": "x" }\n    }\n  }\n}\n';
    expect(JSON.parse(await add("opencode", opencode_2))).toMatchObject({
      mcp: { servers: { backplane: ENTRY } },
    });
    const opencode_1 = '{\n  "mcp": {\n    "a": { "type": "remote", "url": "x" }\n  }\n}\n';
    expect(JSON.parse(await add("opencode", opencode_1))).toMatchObject({ mcp: { backplane: ENTRY } });
  });
});

test("accepts exactly the objects that JSON.parse accepts", async () => {
  const tokens = fc.constantFrom(
    ...'{ } [ ] : , " \\'.split(" "),
    " ",
    "\n",
    "1",
    "-0.5e3",
    "01",
    "true",
    '"a"',
    '"\\u12"',
    "//",
    "/*",
    "*/",
  );
  const texts = fc.oneof(
    fc.array(tokens, { maxLength: 12 }).map((parts) => parts.join("")),
    fc.object().map((value) => JSON.stringify(value, null, 1)),
    fc.json(),
  );
  await fc.assert(
    fc.asyncProperty(texts, async (text) => {
      let expected: unknown = null;
      try {
        expected = JSON.parse(text);
      } catch {
        // Not JSON.
      }
      const valid = typeof expected === "object" && expected !== null && !Array.isArray(expected);
      if (text.trim() === "") return;
      const parsed = await read("claude", text).catch((error: { code: string }) => error.code);
      if (!valid) expect(parsed).toBe("client.config_invalid");
      else expect(JSON.stringify((parsed as { document: unknown }).document)).toBe(JSON.stringify(expected));
    }),
    { numRuns: 500 },
  );
});

test("restores the bytes of any document when an added entry is removed again", async () => {
  const servers = fc.dictionary(fc.string(), fc.jsonValue()).filter((value) => !("backplane" in value));
  await fc.assert(
    fc.asyncProperty(
      servers,
      fc.jsonValue(),
      fc.constantFrom("", "  ", "\t"),
      async (mcpServers, other, indent) => {
        const text = JSON.stringify({ before: other, mcpServers, after: other }, null, indent);
        const added = await add("claude", text);
        expect(JSON.parse(added).mcpServers.backplane).toEqual(ENTRY);
        expect(await remove("claude", added)).toBe(text);
      },
    ),
    { numRuns: 200 },
  );
});

const TOML = `# Codex
model = "o" # the model
text = """
[mcp_servers.backplane]
"""

[mcp_servers.files]
command = "files"
args = [
  "a",
]

# About the profile.
[profiles.fast]
when = 2026-01-01T00:00:00Z
big = 9007199254740993
`;

describe("TOML", () => {
  const entry = findClient("codex").buildEntry({ url: "http://127.0.0.1:7420/mcp", token: "bpk_a-B_9" });

  verifies("client.connect", "adds a table to TOML and keeps all other bytes", async () => {
    const text = await add("codex", TOML, entry);
    expect(text).toBe(
      `${TOML}
[mcp_servers.backplane]
url = "http://127.0.0.1:7420/mcp"
http_headers = { Authorization = "Bearer bpk_a-B_9" }
`,
    );
    expect(
      readConnection(findClient("codex"), findServerEntry(await read("codex", text), "backplane")),
    ).toEqual({
      url: "http://127.0.0.1:7420/mcp",
      token: "bpk_a-B_9",
    });
  });

  test("removes the table and its sub-tables, and keeps the comment of the next table", async () => {
    const original = `[mcp_servers.files]\ncommand = "x"\n\n# Next.\n[tui]\na = 1\n`;
    const middle = original.replace(
      "\n# Next.",
      '\n[mcp_servers."backplane"]\nurl = "u"\n[mcp_servers.backplane.env_http_headers]\nA = "B"\n\n# Next.',
    );
    expect(await remove("codex", middle)).toBe(original);
  });

  test("refuses inline tables and a header that is part of a string", async () => {
    await expect(add("codex", "mcp_servers = { a = { url = 'x' } }\n", entry)).rejects.toMatchObject({
      code: "client.config_invalid",
    });
    await expect(remove("codex", "[mcp_servers]\nbackplane = { url = 'x' }\n")).rejects.toMatchObject({
      code: "client.config_invalid",
    });
    await expect(remove("codex", await add("codex", TOML, entry))).rejects.toMatchObject({
      code: "client.config_invalid",
    });
  });

  test("restores every byte when an added table is removed again", async () => {
    for (const original of ["a = 1\n", "a = 1\r\n[b]\r\nc = 2\r\n", "[mcp_servers.files]\ncommand = 'x'\n"])
      expect(await remove("codex", await add("codex", original, entry))).toBe(original);
  });
});

test.each([
  ["/", "an object is expected"],
  ['{ / "a": 1 }', "a property name in double quotes is expected"],
  ['{\n"a": /1 }', "line 2 cannot be parsed, a value is expected"],
  ['{ "a": 1 / }', "a comma or } is expected"],
  ['{ "a": [1 /] }', "a comma or ] is expected"],
  ["{} /", "nothing may follow the closing brace"],
  ["{} /* open", "a comment is not closed"],
  ["{} /*/", "a comment is not closed"],
])("reports the reason why %j cannot be parsed", async (text, reason) => {
  await expect(read("vscode", text)).rejects.toThrow(reason);
});

test("recognizes an entry as written by `client connect` only if it has a gateway key", () => {
  const claude = findClient("claude");
  const headers = { Authorization: "Bearer bpk_abc" };
  expect(readConnection(claude, { url: "http://a/mcp", headers })).toEqual({
    url: "http://a/mcp",
    token: "bpk_abc",
  });
  const other_entries: (Json | undefined)[] = [
    undefined,
    null,
    "x",
    { command: "backplane", args: ["mcp"] },
    { url: "http://a/mcp" },
    { url: "http://a/mcp", headers: { Authorization: "Bearer sk-other" } },
    { url: 7, headers },
  ];
  for (const entry of other_entries) expect(readConnection(claude, entry), JSON.stringify(entry)).toBeNull();
});

test("masks the admin token and delegated tokens in a diff", () => {
  const diff = formatDiff("/c", "Bearer bpa_secret\n", "Bearer vai_dlg_secret\n");
  expect(diff).toBe("--- /c\n+++ /c\n@@ -1,1 +1,1 @@\n-Bearer bpa_…\n+Bearer vai_dlg_…");
});

test("formats the changed lines as a diff and masks API keys", () => {
  expect(formatDiff("/c", "a\nb\nc\n", "a\nBearer bpk_secret\nc\n")).toBe(
    "--- /c\n+++ /c\n@@ -2,1 +2,1 @@\n-b\n+Bearer bpk_…",
  );
  expect(formatDiff("/c", null, "a\n")).toBe("--- /dev/null\n+++ /c\n@@ -0,0 +1,1 @@\n+a");
});
