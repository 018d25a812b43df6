/**
 * The thirty checks of the console and the command line, and the tests that verify them. `test/console-checks.test.ts`
 * fails if a check has no test or a test has another title.
 */
export interface ConsoleCheck {
  check: number;
  requirement: string;
  /** The file and the title of each test; {} stands for a part of the title that differs between several tests. */
  tests: readonly (readonly [file: string, title: string])[];
}

const QUALITY = "test/slow/console/quality.test.ts";
const OBSERVE = "test/slow/console/observe.test.ts";
const OBSERVE_CALLS = "test/slow/console/observe-calls.test.ts";
const MANAGE = "test/slow/console/manage.test.ts";
const MANAGE_PAGES = "test/slow/console/manage-pages.test.ts";
const MANAGE_SOURCES = "test/slow/console/manage-sources.test.ts";
const CLI = "packages/cli/test";

const NO_VIOLATION =
  "has no accessibility violation, error or foreign request on any main page in the light and dark theme";
const NO_VIOLATION_OBSERVE =
  "has no accessibility violation or error on the Observe pages in the light and dark theme";
const NO_VIOLATION_MANAGE =
  "has no accessibility violation, error or foreign request on a management page in the light and dark theme";

export const CONSOLE_CHECKS: readonly ConsoleCheck[] = [
  {
    check: 1,
    requirement: "`up --no-open` on a clean home prints a URL whose health is 200 within 5 s",
    tests: [[QUALITY, "the gateway prints its address on an empty home and then answers requests"]],
  },
  {
    check: 2,
    requirement: "401 without a token, 403 for a foreign Host or Origin",
    tests: [
      [QUALITY, "the gateway prints its address on an empty home and then answers requests"],
      [
        "packages/api/test/auth/authenticate.test.ts",
        "rejects a foreign Host or Origin on public, protected and unknown paths, despite a valid credential",
      ],
    ],
  },
  {
    check: 3,
    requirement: "axe finds no A or AA violation on any route, light and dark",
    tests: [
      [QUALITY, NO_VIOLATION],
      [OBSERVE, NO_VIOLATION_OBSERVE],
      [MANAGE_PAGES, NO_VIOLATION_MANAGE],
    ],
  },
  {
    check: 4,
    requirement: "only same-origin requests, no error in the browser's console",
    tests: [
      [QUALITY, NO_VIOLATION],
      [MANAGE_PAGES, NO_VIOLATION_MANAGE],
    ],
  },
  {
    check: 5,
    requirement: "at most 200 kB of compressed script at first, Home usable within 2 s",
    tests: [
      ["packages/console/test/size.test.ts", "the first load has at most 200 kB of compressed script"],
      [QUALITY, "makes the home page usable with fewer than 15 requests to the API"],
    ],
  },
  {
    check: 6,
    requirement: "the palette works by keyboard",
    tests: [[QUALITY, "can be operated by keyboard: palette, help, go to a page, rows of a list"]],
  },
  {
    check: 7,
    requirement: "every action works by keyboard",
    tests: [
      [QUALITY, "reaches every control of the main pages with the Tab key"],
      [QUALITY, "answers an approval and runs a call again with the keyboard alone"],
    ],
  },
  {
    check: 8,
    requirement: "empty lists say what belongs there and how to add it",
    tests: [
      [QUALITY, "says on every empty list what belongs there, with an action or the command that adds it"],
    ],
  },
  {
    check: 9,
    requirement:
      "a killed gateway shows as Reconnecting, and after its restart nothing is missing or repeated",
    tests: [
      [QUALITY, "shows Reconnecting while the gateway is down, and afterwards every call and event once"],
      [OBSERVE, "resumes the event list after the gateway was killed, without a missing or repeated event"],
    ],
  },
  {
    check: 10,
    requirement: "a request without a response becomes an error with a retry",
    tests: [[QUALITY, "turns a request that gets no response into an error with a retry"]],
  },
  {
    check: 11,
    requirement: "an approval raised by the command line shows in two tabs and leaves both when answered",
    tests: [
      [
        QUALITY,
        "shows the approval of a call from the command line in two open tabs, and removes it from both when it is answered",
      ],
    ],
  },
  {
    check: 12,
    requirement: "five identical requests are one row",
    tests: [
      [
        QUALITY,
        "shows an approval in two open tabs without a reload, and removes it from both when one answers",
      ],
    ],
  },
  {
    check: 13,
    requirement: "a high risk shows the full arguments and has the focus on Reject",
    tests: [
      [
        QUALITY,
        "shows an approval in two open tabs without a reload, and removes it from both when one answers",
      ],
    ],
  },
  {
    check: 14,
    requirement: "an expired request has disabled buttons, and a late answer gets 409",
    tests: [[QUALITY, "disables the answers to an expired request, and refuses a late answer with 409"]],
  },
  {
    check: 15,
    requirement: "an approval for a session can be revoked",
    tests: [
      [QUALITY, "approves calls for a session, lists the approval and revokes it"],
      [
        MANAGE,
        "runs later calls of a session without asking after an approval for the session, and asks again after it is revoked",
      ],
    ],
  },
  {
    check: 16,
    requirement: "a rule that is shown is enforced",
    tests: [
      [
        MANAGE_PAGES,
        "enforces an allow rule that was made in the console, exactly as it is shown, until it is revoked",
      ],
      [
        MANAGE,
        "adds and tests a model provider, shows the token of a new key once, and enforces a policy from the next call on",
      ],
    ],
  },
  {
    check: 17,
    requirement: "forms keep references, alternatives, nulls and lists of objects",
    tests: [
      [
        MANAGE,
        "keeps $ref, oneOf, nullable and object-list fields when the form edits another field, and applies every change to the next call without a restart",
      ],
    ],
  },
  {
    check: 18,
    requirement: "a stored secret is never shown",
    tests: [[MANAGE, "never shows a stored secret on a page or returns it in a response"]],
  },
  {
    check: 19,
    requirement: "a binding with an unbound slot is inactive, and its call exits with 3",
    tests: [
      [
        MANAGE,
        "describes a source in sentences, installs it, and keeps a binding without its secret inactive",
      ],
      [
        `${CLI}/commands/binding/binding.test.ts`,
        "exits with 3 for a call with an unbound slot, and passes the value to the plugin once it is bound",
      ],
    ],
  },
  {
    check: 20,
    requirement: "a card whose artifact is not published has no Install button",
    tests: [[MANAGE, "does not offer to install an entry whose artifact is not published"]],
  },
  {
    check: 21,
    requirement: "a changed byte exits with 6 and names both digests",
    tests: [
      [
        "test/slow/registries/oci-registry.test.ts",
        "an installation fails with exit code 6 and both digests if a byte in any part of its layout was changed",
      ],
      [
        MANAGE_SOURCES,
        "refuses a package whose bytes were changed, with the expected and the actual digest, by command and in the console",
      ],
    ],
  },
  {
    check: 22,
    requirement: "an upgrade that adds egress is held while the old version stays in use",
    tests: [
      [
        MANAGE,
        "holds an upgrade that adds network access until a person decides, and keeps the old version in use",
      ],
    ],
  },
  {
    check: 23,
    requirement: "enable, disable and configuration apply at the next call in the same gateway",
    tests: [
      [
        MANAGE,
        "keeps $ref, oneOf, nullable and object-list fields when the form edits another field, and applies every change to the next call without a restart",
      ],
    ],
  },
  {
    check: 24,
    requirement: "after a reload in the middle of a stream, the final text equals the stored one",
    tests: [[OBSERVE, "shows the stored text once after a reload in the middle of its stream"]],
  },
  {
    check: 25,
    requirement: "a trace of 10,000 calls is drawn within 1 s with at most 300 rows in the document",
    tests: [
      [
        OBSERVE_CALLS,
        "shows the first rows of a trace of 10,000 calls before the last ones are loaded, with at most 300 rows in the document",
      ],
    ],
  },
  {
    check: 26,
    requirement: "a failed call shows its code, stderr and attempt, and can be run again",
    tests: [
      [QUALITY, "shows why a call failed and runs it again"],
      [OBSERVE_CALLS, "shows each attempt of a retried call with its error and the pauses between them"],
    ],
  },
  {
    check: 27,
    requirement: "every `--json` output parses, and piped output has no ANSI codes",
    tests: [
      [`${CLI}/program/json-output.test.ts`, "prints one JSON document: {}"],
      [`${CLI}/program/json-output.test.ts`, "%s prints no color without a terminal or with NO_COLOR"],
    ],
  },
  {
    check: 28,
    requirement: "a prompt without stdin exits with 2 immediately",
    tests: [[QUALITY, "a command exits with 2 instead of waiting for an answer if stdin is closed"]],
  },
  {
    check: 29,
    requirement: "an author's work from init to invoke, in TypeScript and Python",
    tests: [
      [
        `${CLI}/commands/plugin/authoring.test.ts`,
        "creates, tests, packs, signs, installs and invokes a {} plugin",
      ],
      [
        "test/slow/registries/oci-registry.test.ts",
        "publishes, installs and invokes a plugin that plugin init created, in TypeScript and Python",
      ],
    ],
  },
  {
    check: 30,
    requirement:
      "`plugin test` passes the reference plugins and names the broken rule of defective ones with exit 7",
    tests: [
      ["test/slow/plugins/plugin-conformance.test.ts", "finds no broken rule in the reference plugins"],
      [
        "test/slow/plugins/plugin-conformance.test.ts",
        "names exactly the broken rule of every defective plugin",
      ],
      [
        `${CLI}/commands/plugin/authoring.test.ts`,
        "exits with 7 and shows the rule that a plugin breaks, with its frame and fix",
      ],
    ],
  },
];
