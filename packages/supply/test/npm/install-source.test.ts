import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { codeOf } from "@backplane/contract";
import { expect, test } from "vitest";
import { validateInstallSource } from "../../src/index.ts";

test.each([
  ["yaya-tool-bash", { kind: "npm", name: "yaya-tool-bash", spec: "yaya-tool-bash@latest" }],
  [
    "yaya-tool-bash@1.2.3-rc.1+x",
    { kind: "npm", name: "yaya-tool-bash", spec: "yaya-tool-bash@1.2.3-rc.1+x" },
  ],
  ["@acme/tool@next", { kind: "npm", name: "@acme/tool", spec: "@acme/tool@next" }],
  ["@acme/tool", { kind: "npm", name: "@acme/tool", spec: "@acme/tool@latest" }],
  ["./my-plugin", { kind: "path", path: resolve("my-plugin") }],
  ["..", { kind: "path", path: resolve("..") }],
  ["/srv/my plugin", { kind: "path", path: "/srv/my plugin" }],
  ["~/my-plugin", { kind: "path", path: join(homedir(), "my-plugin") }],
])("accepts %s as a source", (source, expected) => {
  expect(validateInstallSource(source)).toEqual(expected);
});

test.each([
  [""],
  [" "],
  ["tool\nother"],
  ["tool\rother"],
  ["tool\0"],
  ["./folder\n--scripts"],
  ["tool\u001b[31m"],
  ["tool\u2028other"],
  ["./\u202etxt.evil"],
  [" tool"],
  ["tool "],
  ["-g"],
  ["--registry=http://example.test"],
  ["--ignore-scripts=false"],
  ["http://example.test/tool.tgz"],
  ["https://example.test/tool.tgz"],
  ["git+ssh://git@example.test/tool"],
  ["git://example.test/tool"],
  ["git@example.test:acme/tool.git"],
  ["github:acme/tool"],
  ["file:../tool"],
  ["FILE:/etc"],
  ["npm:other@1"],
  ["alias@npm:other"],
  ["link:../tool"],
  ["workspace:*"],
  ["acme/tool"],
  ["acme/tool#main"],
  ["@acme"],
  ["@/tool"],
  ["@acme/tool/deep"],
  ["@acme/../tool"],
  ["tool@"],
  ["tool@^1"],
  ["tool@>=1 <2"],
  ["tool@-x"],
  ["tool@1;rm"],
  ["tool other"],
  ["Tool"],
  [".hidden"],
  ["_private"],
  ["node_modules"],
  ["tool$(id)"],
  ["tool`id`"],
  ["a".repeat(215)],
  [`/${"a".repeat(2_000)}`],
])("refuses %j as a source", (source) => {
  let thrown: unknown;
  try {
    validateInstallSource(source);
  } catch (error) {
    thrown = error;
  }
  expect(codeOf(thrown)).toBe("plugin.source_invalid");
  // The message is shown to people, so the source must not add lines to it.
  expect((thrown as Error).message).not.toMatch(/[\p{Cc}\u2028\u202e]/u);
});
