/**
 * `client connect` never damages the configuration of another program. Other users cannot read the key, and the key
 * never gets more rights.
 */
import type { Mutant } from "./mutant.ts";

const FILE = "packages/cli/src/clients/config-file.ts";
const FILE_TESTS = ["packages/cli/test/clients/config-file.test.ts"];
const EDIT = "packages/cli/src/clients/edit-entry.ts";
const EDIT_TESTS = ["packages/cli/test/clients/edit-entry.test.ts"];
const COMMAND = "packages/cli/src/commands/client.ts";
const COMMAND_TESTS = ["packages/cli/test/commands/client.test.ts"];

export const CLIENT_DEFENSES: Mutant[] = [
  {
    name: "client: a file that changed after it was read is not overwritten",
    file: FILE,
    from: "if (read(path).text !== text)",
    to: "if (read(path).text === undefined)",
    tests: FILE_TESTS,
  },
  {
    name: "client: a file that is not UTF-8 is refused",
    file: FILE,
    from: "if (!Buffer.from(text).equals(bytes))",
    to: "if (Buffer.from(text).equals(bytes) && !bytes.equals(bytes))",
    tests: FILE_TESTS,
  },
  {
    name: "client: a read-only file is refused",
    file: FILE,
    from: "(mode & 0o222) === 0",
    to: "(mode & 0o222) === 1",
    tests: COMMAND_TESTS,
  },
  {
    name: "client: the backup is private",
    file: FILE,
    from: "mode & PRIVATE_MODE, owner",
    to: "mode, owner",
    tests: COMMAND_TESTS,
  },
  {
    name: "client: an edit that does not parse to the expected document is discarded",
    file: EDIT,
    from: "if (isDeepStrictEqual(actual, toPlainObjects(expected))) return edited;",
    to: "return edited;",
    tests: EDIT_TESTS,
  },
  {
    name: "client: an entry that the command did not write is not replaced",
    file: COMMAND,
    from: "if (entry !== undefined && connection === null) throw entryConflictError(client_file, options.name);",
    to: "",
    tests: COMMAND_TESTS,
  },
  {
    name: "client: a replaced key keeps its role",
    file: COMMAND,
    from: 'options.role ?? previous?.role ?? "user"',
    to: 'options.role ?? "user"',
    tests: COMMAND_TESTS,
  },
  {
    name: "client: a key whose file was not written is revoked",
    file: COMMAND,
    from: '      .keys.revoke(key.id, { project: "*" })\n      .catch(() => undefined);\n    throw error;',
    to: "      .keys.list({ limit: 1 })\n      .catch(() => undefined);\n    throw error;",
    tests: COMMAND_TESTS,
  },
  {
    name: "mcp approvals: a caller without the right to answer is not asked",
    file: "packages/api/src/mcp/calls/ask-approval.ts",
    from: "approval_id === null || !mayAnswer(caller)",
    to: "approval_id === null",
    tests: ["packages/api/test/mcp/calls/ask-approval.test.ts"],
  },
  {
    name: "mcp approvals: a disconnect decides nothing",
    file: "packages/api/src/mcp/calls/ask-approval.ts",
    from: 'const NO_DECISION: Json = { action: "cancel" };',
    to: 'const NO_DECISION: Json = { action: "decline" };',
    tests: ["packages/api/test/mcp/calls/ask-approval.test.ts"],
  },
  {
    name: "mcp approvals: only the two decisions of the form are accepted",
    file: "packages/api/src/mcp/calls/ask-approval.ts",
    from: 'if (decision !== "approve" && decision !== "reject") return null;',
    to: 'if (decision !== "reject") return { response: "approve" };',
    tests: ["packages/api/test/mcp/calls/ask-approval.test.ts"],
  },
  {
    name: "mcp approvals: a person sees all arguments",
    file: "packages/api/src/mcp/calls/ask-approval.ts",
    from: "if (arguments_text.length > MAX_ARGUMENT_CHARS) return null;",
    to: "if (arguments_text.length > MAX_ARGUMENT_CHARS * 100) return null;",
    tests: ["packages/api/test/mcp/calls/ask-approval.test.ts"],
  },
  {
    name: "mcp notifications: a stream that cannot be opened releases its subscriptions",
    file: "packages/api/src/mcp/notifications/notification-streams.ts",
    from: "    releaseAll();\n    throw error;",
    to: "    throw error;",
    tests: ["packages/api/test/mcp/notifications/notification-streams.test.ts"],
  },
];
