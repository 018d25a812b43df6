/** An artifact is a regular file of the call's own scratch folder and contains no secret of the call. */
import { INIT, type Mutant, RUNNER } from "./mutant.ts";

const ARTIFACTS_TESTS = ["packages/runner/test/artifacts/artifacts.test.ts"];

export const ARTIFACT_DEFENSES: Mutant[] = [
  {
    name: "sandbox: an artifact is not read through a link",
    file: `${INIT}/artifact.c`,
    from: "O_RDONLY | O_NOFOLLOW | O_NONBLOCK",
    to: "O_RDONLY | O_NONBLOCK",
    tests: ARTIFACTS_TESTS,
  },
  {
    name: "sandbox: an artifact is not read through a linked folder",
    file: `${INIT}/artifact.c`,
    from: "O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)\n",
    to: "O_RDONLY | O_DIRECTORY | O_CLOEXEC)\n",
    tests: ARTIFACTS_TESTS,
  },
  {
    name: "sandbox: an artifact has one hard link",
    file: `${INIT}/artifact.c`,
    from: "info.st_nlink != 1",
    to: "info.st_nlink < 1",
    tests: ARTIFACTS_TESTS,
  },
  {
    name: "sandbox: an artifact is not setuid or setgid",
    file: `${INIT}/artifact.c`,
    from: "(S_ISUID | S_ISGID)",
    to: "0",
    tests: ARTIFACTS_TESTS,
  },
  {
    name: "no sandbox: an artifact is not read through a link",
    file: `${RUNNER}/artifacts/read-beneath.ts`,
    from: "O_RDONLY | O_NOFOLLOW | O_NONBLOCK",
    to: "O_RDONLY | O_NONBLOCK",
    tests: ARTIFACTS_TESTS,
  },
  {
    name: "no sandbox: an artifact has one hard link",
    file: `${RUNNER}/artifacts/read-beneath.ts`,
    from: "nlink !== 1",
    to: "nlink < 1",
    tests: ARTIFACTS_TESTS,
  },
  {
    name: "an artifact path stays inside the scratch folder",
    file: "packages/contract/src/values/artifact.ts",
    from: ' && name !== ".."',
    to: "",
    tests: ARTIFACTS_TESTS,
  },
  {
    name: "an artifact path has no characters that hide or reverse text",
    file: "packages/contract/src/values/artifact.ts",
    from: "[\\p{C}",
    to: "[\\p{Cc}",
    tests: ["packages/contract/test/values/artifact.test.ts"],
  },
  {
    name: "an artifact contains no secret",
    file: `${RUNNER}/artifacts/collect-artifacts.ts`,
    from: 'if (hasSecret(content, options.redactor)) throw refused(path, "secret");',
    to: "",
    tests: ARTIFACTS_TESTS,
  },
  {
    name: "an artifact contains no secret with non-ASCII characters",
    file: `${RUNNER}/secrets/redact.ts`,
    from: '(["utf8", "latin1"] as const)',
    to: '(["latin1"] as const)',
    tests: ARTIFACTS_TESTS,
    only: "contains a secret of the call",
  },
  {
    name: "an artifact of a server contains no secret",
    file: `${RUNNER}/artifacts/collect-server-files.ts`,
    from: 'hasSecret(content, options.redactor) ? "secret" : null',
    to: "null",
    tests: ["packages/runner/test/artifacts/server-files.test.ts"],
    only: "too large or contains a secret",
  },
  {
    name: "an artifact of a server on the host is not a file of the operator",
    file: `${RUNNER}/pool/launch-preparation.ts`,
    from: "if (operator_home !== null || this.#home === null)",
    to: "if (this.#home === null)",
    tests: ["packages/runner/test/pool/launch-preparation.test.ts"],
    only: "operator's home",
  },
];
