import { expect, test } from "vitest";
import { parsePythonRequirement, semanticVersionOf } from "../../src/pypi/requirement.ts";

test.each([
  ["1.2.3", "1.2.3"],
  ["1", "1.0.0"],
  ["2025.04.08", "2025.4.8"],
  ["1.2rc1", "1.2.0-rc.1"],
  ["1.0b2", "1.0.0-beta.2"],
  ["1.0.post1", "1.0.0+post1"],
  ["1.2.3.4", "1.2.3+4"],
  ["1.0.dev3", "1.0.0+dev3"],
  ["1!2.0", "2.0.0+epoch.1"],
  ["1.0+local.7", "1.0.0+local.7"],
])("converts the version %s of a Python package to %s", (version, semantic) => {
  expect(semanticVersionOf(version)).toBe(semantic);
});

test.each([
  ["mcp-server-time", "mcp-server-time", null],
  ["Mcp_Server.Time==1.2", "mcp-server-time==1.2", "1.2"],
  ["mcp[cli]@1.0", "mcp[cli]==1.0", "1.0"],
  ["mcp@latest", "mcp", null],
])("parses the requirement %s as %s", (spec, requirement, version) => {
  expect(parsePythonRequirement(spec)).toMatchObject({ requirement, version });
});
