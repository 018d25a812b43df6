/** Templates, the conformance suite, and the frames that `plugin dev` shows. */
import type { Mutant } from "./mutant.ts";

const SESSION = "packages/authoring/src/conformance/vai-test-session.ts";
const CHECKS = "packages/authoring/src/conformance/vai-checks.ts";
const DEFECTS_TESTS = ["packages/authoring/test/conformance/defects.test.ts"];
const CASES_TESTS = ["packages/authoring/test/conformance/cases.test.ts"];
const AUTHORING_TESTS = ["packages/cli/test/commands/plugin/authoring.test.ts"];
const DEV_TESTS = ["packages/cli/test/commands/plugin/dev.test.ts"];
const FRAME_TAPS_TESTS = ["packages/runner/test/processes/frame-taps.test.ts"];

export const AUTHORING_DEFENSES: Mutant[] = [
  {
    name: "init: a folder that is not empty is refused",
    file: "packages/authoring/src/templates/create-plugin.ts",
    from: "if (entries.length > 0)",
    to: "if (entries.length < 0)",
    tests: AUTHORING_TESTS,
    only: "refuses an invalid name",
  },
  {
    name: "init: an invalid name is refused",
    file: "packages/authoring/src/templates/create-plugin.ts",
    from: "if (match === null || text.length > MAX_NAME)",
    to: "if (match === null && text.length > MAX_NAME)",
    tests: AUTHORING_TESTS,
    only: "refuses an invalid name",
  },
  {
    name: "conformance: a broken rule ends with exit code 7",
    file: "packages/cli/src/commands/plugin/test-plugin.ts",
    from: "if (!report.conforms) return EXIT.conformance;",
    to: "if (!report.conforms) return EXIT.ok;",
    tests: AUTHORING_TESTS,
    only: "exits with 7",
  },
  {
    name: "conformance: a second response to a request breaks a rule",
    file: SESSION,
    from: "const again = typeof id",
    to: "const again = typeof id !== typeof id && typeof id",
    tests: DEFECTS_TESTS,
    only: "shows the frame",
  },
  {
    name: "conformance: the hello is compared with the manifest",
    file: SESSION,
    from: "if (plugin[field] !== identity[field])",
    to: "if (plugin[field] === null)",
    tests: DEFECTS_TESTS,
    only: "twelve defective",
  },
  {
    name: "conformance: a secret in the output is found",
    file: SESSION,
    from: "if (redacted !== text)",
    to: "if (redacted === null)",
    tests: DEFECTS_TESTS,
    only: "never a secret",
  },
  {
    name: "conformance: a crash counts against the rule of the running check",
    file: "packages/authoring/src/conformance/run-vai.ts",
    from: "if (error instanceof ProcessEnded ||",
    to: "if (",
    tests: DEFECTS_TESTS,
    only: "twelve defective",
  },
  {
    name: "conformance: the exit code after a shutdown is checked",
    file: CHECKS,
    from: "if (code !== 0)",
    to: "if (code === -1)",
    tests: DEFECTS_TESTS,
    only: "twelve defective",
  },
  {
    name: "conformance: the output of a tool is compared with its schema",
    file: "packages/authoring/src/conformance/vai-calls.ts",
    from: "const [issue] = await checkOutput(result.structured_output);",
    to: "const [issue] = await checkOutput({ words: 1 });",
    tests: DEFECTS_TESTS,
    only: "twelve defective",
  },
  {
    name: "conformance: a case compares the values of the expected output",
    file: "packages/authoring/src/conformance/cases.ts",
    from: "if (expected === actual) return null;",
    to: "if (typeof expected === typeof actual) return null;",
    tests: CASES_TESTS,
    only: "compares statuses",
  },
  {
    name: "dev: a saved version that does not start leaves the last one in use",
    file: "packages/registry/src/installations/installations.ts",
    from: "changing !== true || !isSelfDescribing(",
    to: "changing !== true && !isSelfDescribing(",
    tests: DEV_TESTS,
    only: "keeps the last version",
  },
  {
    name: "dev: frames are shown without secrets",
    file: "packages/runner/src/processes/frame-taps.ts",
    from: "if (this.#secrets.size > known_count)",
    to: "if (this.#secrets.size < known_count)",
    tests: FRAME_TAPS_TESTS,
  },
  {
    name: "dev: stderr is shown without secrets",
    file: "packages/runner/src/processes/frame-taps.ts",
    from: 'this.#show("plugin", "stderr", this.#redactor?.excerpt(text) ?? text);',
    to: 'this.#show("plugin", "stderr", text);',
    tests: FRAME_TAPS_TESTS,
  },
  {
    name: "dev: only observed bindings are tapped",
    file: "packages/runner/src/processes/frame-taps.ts",
    from: "if (request === null || !this.#observers.has(request.binding_id)) return null;",
    to: "if (request === null) return null;",
    tests: FRAME_TAPS_TESTS,
  },
  {
    name: "dev: only the host's administrator sees frames",
    file: "packages/registry/src/workspaces/workspaces.ts",
    from: 'requireHostAdmin(caller, "watch a trusted folder");',
    to: "",
    tests: ["packages/registry/test/workspaces/workspace-activity.test.ts"],
  },
  {
    name: "dev: the folder is unlinked when the command ends",
    file: "packages/cli/src/commands/plugin/dev-plugin.ts",
    from: "if (!was_linked) await unlink(context, folder);",
    to: "",
    tests: DEV_TESTS,
    only: "keeps the last version",
  },
  {
    name: "dev: a folder that was linked before stays linked",
    file: "packages/cli/src/commands/plugin/dev-plugin.ts",
    from: "if (!was_linked) await",
    to: "await",
    tests: DEV_TESTS,
    only: "keeps a folder linked",
  },
];
