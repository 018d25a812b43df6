import type { Package } from "@backplane/contract";
import { expect, test } from "vitest";
import { formatPermissions } from "../../src/packages/permission-text.ts";

const NONE = { network: "none", filesystem: "none", secret_slots: [], gateway_api_scopes: [] };

interface PackageParts {
  exports?: [id: string, permissions?: object][];
  process?: object;
  package_id?: string;
}

function createPackage({ exports = [], process, package_id = "acme/kit" }: PackageParts): Package {
  return {
    package_id,
    manifest: {
      runtime: process === undefined ? {} : { permissions: { ...NONE, ...process } },
      exports: exports.map(([id, permissions]) => ({ id, permissions: { ...NONE, ...permissions } })),
    },
  } as unknown as Package;
}

const NOTHING = [
  "  It cannot use the network.",
  "  It cannot read or write files.",
  "  It receives no secrets.",
];

test("describes exports with equal permissions once", () => {
  const pack = createPackage({
    exports: [["read"], ["send", { network: "egress", allowed_domains: ["api.acme.test"] }], ["list"]],
  });
  expect(formatPermissions([pack])).toEqual([
    "What read and list may do:",
    ...NOTHING,
    "What send may do:",
    "  It can connect to api.acme.test.",
    ...NOTHING.slice(1),
  ]);
});

test("names the package if all of it has the same permissions", () => {
  expect(formatPermissions([createPackage({ exports: [["a"], ["b"], ["c"]] })])).toEqual([
    "What acme/kit may do:",
    ...NOTHING,
  ]);
  expect(formatPermissions([createPackage({ process: {} })])).toEqual(["What acme/kit may do:", ...NOTHING]);
  expect(formatPermissions([createPackage({})])).toEqual(["acme/kit requests no permissions."]);
});

test("separates the process of a package from its exports", () => {
  const pack = createPackage({ process: { secret_slots: ["token"] }, exports: [["watch"]] });
  expect(formatPermissions([pack])).toEqual([
    "What all tools of acme/kit may do:",
    ...NOTHING.slice(0, 2),
    "  It receives the secrets that you bind to token.",
    "What watch may do:",
    ...NOTHING,
  ]);
});

test("describes packages with equal permissions once, and names the package of each export", () => {
  const packages = [
    createPackage({ package_id: "npm/one", process: {} }),
    createPackage({ package_id: "npm/two", process: {} }),
    createPackage({ package_id: "acme/kit", exports: [["a"], ["b", { filesystem: "scratch" }]] }),
  ];
  expect(formatPermissions(packages).filter((line) => !line.startsWith(" "))).toEqual([
    "What npm/one, npm/two and a of acme/kit may do:",
    "What b of acme/kit may do:",
  ]);
});

test("abbreviates a long list of names", () => {
  const ids = Array.from({ length: 40 }, (_, index): [string] => [`tool_${index}`]);
  const pack = createPackage({ exports: [...ids, ["send", { network: "egress" }]] });
  expect(formatPermissions([pack], 3)[0]).toBe("What tool_0, tool_1, tool_2 and 37 more may do:");
  expect(formatPermissions([pack])[0]).toMatch(/tool_38 and tool_39 may do:$/);
});

test("shows the author's reason below its sentence, without control characters", () => {
  const permissions = { secret_slots: ["token"], reasons: { token: "Signs in\u001b[31m.\nAlways." } };
  expect(formatPermissions([createPackage({ exports: [["send", permissions]] })]).slice(-2)).toEqual([
    "  It receives the secrets that you bind to token.",
    "    The author's reason: Signs in. · Always.",
  ]);
});
