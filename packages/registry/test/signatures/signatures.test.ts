/** Signatures of packages: installations where one is required, and the error of each refusal. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { BackplaneError, type InstallationSettings, type PackageSignature } from "@backplane/contract";
import type { Store } from "@backplane/ports";
import { generateSigningKey, packLayout, type SigningKey, signPackage } from "@backplane/supply";
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { beforeEach, describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  createInstaller,
  expectNothingStored,
  type Installer,
  openSqlite,
} from "../installations/installer.ts";

const manifestText = (version: string, id = "acme/hello") => `api_version = "vai.plugin.v1"
package_id = "${id}"
version = "${version}"
name = "Hello"

[runtime]
protocol = "vai.rpc.v1"
entrypoint = ["./bin/plugin"]

[[exports]]
id = "greet"
kind = "tool"

[exports.tool]
effect_class = "read_only"
`;

let store: Store;
let installer: Installer;
let acme: SigningKey;
let count = 0;

beforeEach(async () => {
  store = await openSqlite();
  installer = await createInstaller(store);
  acme = generateSigningKey();
});

const trust = async (key: SigningKey, more: object = {}) => {
  const body = { name: "Acme", public_key: key.public_key, ...more };
  return (await installer.fixture.kernel.trusted_keys.trust(admin, body)).key;
};

interface TestPackage {
  /** The folder of the OCI image layout. */
  path: string;
  folder: string;
}

/** Packs a package. `sign` gets its true identity and returns the signatures that are attached. */
async function createTestPackage(
  version: string,
  sign: (identity: Parameters<typeof signPackage>[0]) => unknown[],
  id?: string,
): Promise<TestPackage> {
  const folder = installer.writeFolder(`plugin-${count++}`, {
    "vai-plugin.toml": manifestText(version, id),
    "bin/plugin": "#!/bin/sh\nexit 0\n",
    "package-lock.json": `{"lockfileVersion":3,"for":"${version}"}`,
  });
  const path = `${folder}-layout`;
  const packed = await packLayout(folder, `${path}-first`);
  const listing = readFileSync(join(`${path}-first`, "blobs", packed.digest.replace(":", "/")), "utf8");
  const files = listing
    .split("\n")
    .filter(Boolean)
    .map((line) => line.split(" "))
    .map(([, file, , sha256]) => ({ path: file!, sha256: sha256! }));
  const { package_id } = packed.manifest;
  const signatures = sign({ package_id, version, digest: packed.digest, files });
  await packLayout(folder, path, signatures);
  rmSync(`${path}-first`, { recursive: true });
  return { path, folder };
}

const signWith =
  (key: SigningKey, at = new Date()) =>
  (identity: Parameters<typeof signPackage>[0]): PackageSignature[] => [
    signPackage(identity, key.private_key, at),
  ];

const install = ({ path }: TestPackage, settings: InstallationSettings = {}) =>
  installer.install({ kind: "folder", path }, { bind: false, ...settings });

async function captureRefusal(work: Promise<unknown>): Promise<BackplaneError> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(BackplaneError);
  return error as BackplaneError;
}

verifies("pkg.sign", "installs an OCI package that a trusted key has signed and shows the key", async () => {
  const { key_id } = await trust(acme, { packages: ["acme/*"] });
  const { packages } = await install(await createTestPackage("1.0.0", signWith(acme)));
  expect(packages[0]!.package.signature).toMatchObject({ state: "verified", key_id, key_name: "Acme" });
  const stored = await installer.fixture.kernel.packages.get(admin, packages[0]!.package.id);
  expect(stored.signature?.state).toBe("verified");
  const { items } = await store.audit.list(admin.scope, { action: "package.install" }, { limit: 10 });
  expect(items[0]!.details).toMatchObject({ signed_by: key_id });
});

const altered = (change: Partial<PackageSignature>) => (identity: Parameters<typeof signPackage>[0]) => [
  { ...signPackage(identity, acme.private_key, new Date()), ...change },
];
/** A valid signature by acme, but for different values. */
const signedAs =
  (change: Partial<Parameters<typeof signPackage>[0]>) => (identity: Parameters<typeof signPackage>[0]) =>
    signWith(acme)({ ...identity, ...change });
const past = "2001-01-01T00:00:00.000Z";
const HOUR = 3_600_000;
const hoursFromNow = (hours: number) => new Date(Date.now() + hours * HOUR).toISOString();
const future = "2999-01-01T00:00:00.000Z";

const REFUSALS: [
  label: string,
  code: string,
  sign: Parameters<typeof createTestPackage>[1],
  key: object | null,
][] = [
  ["a package without a signature", "signature.missing", () => [], {}],
  ["the signature of an unknown key", "signature.untrusted", (identity) => signWith(acme)(identity), null],
  [
    "a key for other publishers",
    "signature.untrusted",
    (identity) => signWith(acme)(identity),
    { packages: ["other/*"] },
  ],
  [
    "a key that has expired",
    "signature.expired",
    // The key is valid for one hour, and the signature is checked two hours later.
    (identity) => {
      installer.fixture.clock.wall_offset = 2 * HOUR;
      return signWith(acme)(identity);
    },
    { not_after: hoursFromNow(1) },
  ],
  [
    "a key that is not valid yet",
    "signature.expired",
    (identity) => signWith(acme)(identity),
    { not_before: future },
  ],
  [
    "the signature of different content",
    "signature.mismatch",
    signedAs({ digest: `sha256:${"0".repeat(64)}` }),
    {},
  ],
  ["the signature of another package", "signature.mismatch", signedAs({ package_id: "acme/other" }), {}],
  ["the signature of another version", "signature.mismatch", signedAs({ version: "9.9.9" }), {}],
  [
    "the signature of another dependency lock",
    "signature.mismatch",
    signedAs({ files: [{ path: "package-lock.json", sha256: "0".repeat(64) }] }),
    {},
  ],
  ["a signature that was changed afterwards", "signature.invalid", altered({ signed_at: past }), {}],
  [
    "a signature that its key did not make",
    "signature.invalid",
    altered({ signature: `${"A".repeat(86)}==` }),
    {},
  ],
  ["something that is not a signature", "signature.invalid", () => [{ format: "other" }], {}],
];

for (const [label, code, sign, key] of REFUSALS)
  verifies("pkg.sign", `refuses ${label} with ${code} and stores nothing`, async () => {
    if (key !== null) await trust(acme, key);
    const error = await captureRefusal(install(await createTestPackage("1.0.0", sign)));
    expect(error.code).toBe(code);
    expect(error.fix).not.toBe("");
    await expectNothingStored(installer);
  });

verifies("pkg.sign", "refuses a package that a revoked key has signed and reports the reason", async () => {
  const { id } = await trust(acme);
  const signed_package = await createTestPackage("1.0.0", signWith(acme));
  await installer.fixture.kernel.trusted_keys.revoke(admin, id, "the laptop was stolen");
  const error = await captureRefusal(install(signed_package));
  expect(error.code).toBe("signature.revoked");
  expect(error.message).toContain("the laptop was stolen");
  await expectNothingStored(installer);
  // The key cannot be trusted again, not even under another name.
  const refused = await captureRefusal(trust(acme, { name: "Other" }));
  expect(refused.code).toBe("trusted_key.conflict");
  expect(refused.message).toMatch(/Acme.* was revoked at .* cannot be trusted again/);
});

verifies(
  "pkg.sign",
  "shows that the key of an installed package was revoked or expired after the installation",
  async () => {
    const { id } = await trust(acme);
    const other_key = generateSigningKey();
    const not_after = new Date(Date.now() + 3_600_000).toISOString();
    await trust(other_key, { name: "Other", not_after });
    const { packages } = await install(await createTestPackage("1.0.0", signWith(acme)));
    await install(await createTestPackage("1.0.0", signWith(other_key), "acme/later"));
    const { kernel } = installer.fixture;
    const readStates = async () =>
      (await kernel.packages.list(admin, { limit: 10 })).items
        .map(({ package_id, signature }) => `${package_id} ${signature?.state} ${signature?.reason}`)
        .sort();
    expect(await readStates()).toEqual(["acme/hello verified null", "acme/later verified null"]);
    await kernel.trusted_keys.revoke(admin, id, "stolen");
    installer.fixture.clock.wall_offset = 7_200_000;
    expect(await readStates()).toEqual([
      "acme/hello revoked signature.revoked",
      "acme/later expired signature.expired",
    ]);
    const installed = await kernel.packages.get(admin, packages[0]!.package.id);
    expect(installed.signature).toMatchObject({ state: "revoked", key_name: "Acme" });
  },
);

verifies(
  "pkg.sign",
  "corrects and renews a trusted key when it is trusted again, and shows its packages accordingly",
  async () => {
    const { kernel, clock } = installer.fixture;
    // The publisher is misspelled.
    const first = await trust(acme, { packages: ["acne/*"], not_after: hoursFromNow(1) });
    const signed_package = await createTestPackage("1.0.0", signWith(acme));
    const refused = await captureRefusal(install(signed_package));
    expect(refused.code).toBe("signature.untrusted");
    expect(refused.fix).toContain("--packages 'acne/*,acme/hello'");

    const corrected = await trust(acme, { name: "Acme Inc.", packages: ["acme/*"] });
    expect(corrected).toEqual({ ...first, name: "Acme Inc.", packages: ["acme/*"] });
    const { packages } = await install(signed_package);
    const readSignature = async () => (await kernel.packages.get(admin, packages[0]!.package.id)).signature;
    expect(await readSignature()).toMatchObject({ state: "verified", key_name: "Acme Inc." });
    await trust(acme, { packages: ["other/*"] });
    expect(await readSignature()).toMatchObject({ state: "unverified", reason: "signature.untrusted" });
    await trust(acme, { packages: ["acme/*"] });
    clock.wall_offset = 2 * HOUR;
    expect(await readSignature()).toMatchObject({ state: "expired", reason: "signature.expired" });
    const expired = await captureRefusal(install(await createTestPackage("1.1.0", signWith(acme))));
    expect([expired.code, expired.fix]).toEqual([
      "signature.expired",
      expect.stringContaining("key trust FILE --name NAME --not-after TIME"),
    ]);

    // A renewal does not extend the trust to other packages.
    expect((await trust(acme, { not_after: hoursFromNow(48) })).packages).toEqual(["acme/*"]);
    expect(await readSignature()).toMatchObject({ state: "verified", reason: null });
    await install(await createTestPackage("1.1.0", signWith(acme)));
    expect((await trust(acme, { not_after: null })).not_after).toBeNull();
    expect((await kernel.trusted_keys.list(admin, { limit: 10 })).items).toHaveLength(1);
  },
);

verifies(
  "pkg.sign",
  "records the old and new values of a changed key, and nothing for a key that stays the same",
  async () => {
    const not_after = hoursFromNow(1);
    const { id, key_id } = await trust(acme, { packages: ["acme/*"], not_after });
    const renewed = hoursFromNow(48);
    await trust(acme, { not_after: renewed });
    await trust(acme, { packages: ["acme/*", "other/*"] });
    await trust(acme, { packages: ["acme/*", "other/*"], not_after: renewed });
    const { items } = await store.audit.list(admin.scope, {}, { limit: 20 });
    const changes = items.filter(({ action }) => action.startsWith("trusted_key."));
    expect(changes.map(({ action, subject, details }) => [action, subject, details])).toEqual([
      [
        "trusted_key.update",
        id,
        { key_id, name: "Acme", packages: { from: ["acme/*"], to: ["acme/*", "other/*"] } },
      ],
      ["trusted_key.update", id, { key_id, name: "Acme", not_after: { from: not_after, to: renewed } }],
      ["trusted_key.trust", id, { key_id, name: "Acme", packages: ["acme/*"], not_before: null, not_after }],
    ]);
  },
);

const PERIODS: [label: string, period: object, message: RegExp][] = [
  ["that is over", { not_after: past }, /is over: not_after 2001-01-01T00:00:00.000Z is in the past/],
  ["that ends now", { not_after: "now" }, /is in the past/],
  [
    "that ends before it begins",
    { not_before: future, not_after: hoursFromNow(48) },
    /is not later than not_before 2999/,
  ],
  [
    "that ends when it begins",
    { not_before: future, not_after: future },
    /is not later than not_before 2999/,
  ],
];

for (const [label, period, message] of PERIODS)
  test(`refuses to trust a key for a period ${label}, whether or not the key is trusted`, async () => {
    const { clock } = installer.fixture;
    const limits = () =>
      "not_after" in period && period.not_after === "now"
        ? { not_after: new Date(clock.now()).toISOString() }
        : period;
    for (const known of [false, true]) {
      const key = known ? await trust(acme, { not_after: hoursFromNow(1) }) : null;
      const refused = await captureRefusal(trust(acme, limits()));
      expect([refused.code, refused.fix]).toEqual(["request.invalid", expect.stringContaining("not_after")]);
      expect(refused.message).toMatch(message);
      const { items } = await installer.fixture.kernel.trusted_keys.list(admin, { limit: 10 });
      expect(items).toEqual(known ? [key] : []);
    }
  });

test("refuses to rename an expired key without a new period", async () => {
  await trust(acme, { not_after: hoursFromNow(1) });
  installer.fixture.clock.wall_offset = 2 * HOUR;
  expect((await captureRefusal(trust(acme, { name: "Other" }))).code).toBe("request.invalid");
});

test("does not lose the revocation of a key that is changed at the same time", async () => {
  const { trusted_keys } = installer.fixture.kernel;
  for (let round = 0; round < 5; round++) {
    const key = generateSigningKey();
    const { id } = await trust(key, { packages: ["acme/*"] });
    const changes = ["a/*", "b/*", "c/*"].map((pattern) => trust(key, { packages: [pattern] }));
    const [revoked] = await Promise.all([
      trusted_keys.revoke(admin, id, "stolen"),
      Promise.allSettled(changes),
    ]);
    expect(revoked.revoked_at).not.toBeNull();
    expect((await trusted_keys.get(admin, id)).revoked_reason).toBe("stolen");
  }
});

test("trusts a key once when several requests trust it at the same time", async () => {
  const keys = await Promise.all(
    ["a/*", "b/*", "c/*"].map((pattern) => trust(acme, { packages: [pattern] })),
  );
  expect(new Set(keys.map(({ id }) => id)).size).toBe(1);
});

verifies("pkg.sign", "accepts one valid signature of several, so that keys can be rotated", async () => {
  const next = generateSigningKey();
  const { id } = await trust(acme);
  await trust(next, { name: "Acme 2" });
  await installer.fixture.kernel.trusted_keys.revoke(admin, id, null);
  const signed_package = await createTestPackage("1.0.0", (identity) => [
    ...signWith(acme)(identity),
    ...signWith(next)(identity),
  ]);
  const { packages } = await install(signed_package);
  expect(packages[0]!.package.signature).toMatchObject({ state: "verified", key_name: "Acme 2" });
});

verifies(
  "pkg.sign",
  "refuses an older version than the highest signed one, even after the highest one was removed",
  async () => {
    await trust(acme);
    const older = await createTestPackage("1.0.0", signWith(acme));
    const { packages } = await install(await createTestPackage("1.1.0", signWith(acme)));
    expect((await captureRefusal(install(older))).code).toBe("signature.rollback");
    await installer.fixture.kernel.packages.remove(admin, packages[0]!.package.id);
    const error = await captureRefusal(install(older));
    expect(error.code).toBe("signature.rollback");
    expect(error.details).toMatchObject({ version: "1.0.0", highest: "1.1.0" });
    await expectNothingStored(installer);
    await install(older, { allow_downgrade: true });
    expect(await installer.listPackages()).toEqual(["acme/hello@1.0.0"]);
    // The downgrade does not lower the highest version.
    expect((await captureRefusal(install(await createTestPackage("1.0.5", signWith(acme))))).code).toBe(
      "signature.rollback",
    );
  },
);

describe("where no signature is required", () => {
  verifies("pkg.sign", "installs a local folder without a signature and reports it as unsigned", async () => {
    const { folder } = await createTestPackage("1.0.0", () => []);
    const { packages } = await installer.install({ kind: "folder", path: folder }, { bind: false });
    expect(packages[0]!.package.signature).toMatchObject({
      state: "unsigned",
      reason: "signature.missing",
    });
  });

  test("verifies the signature in a folder, and shows why one is not valid", async () => {
    await trust(acme);
    const signed = await createTestPackage("1.0.0", () => []);
    const identity = (digest: string) => ({ package_id: "acme/hello", version: "1.0.0", digest, files: [] });
    const file = join(signed.folder, "marketplace.signature.json");
    mkdirSync(signed.folder, { recursive: true });
    writeFileSync(file, JSON.stringify(signWith(acme)(identity(`sha256:${"0".repeat(64)}`))[0]));
    const { packages } = await installer.install({ kind: "folder", path: signed.folder }, { bind: false });
    expect(packages[0]!.package.signature).toMatchObject({
      state: "unverified",
      reason: "signature.mismatch",
    });
  });
});

describe("trusted keys", () => {
  test("lets only an admin of the whole org trust and revoke keys", async () => {
    const { trusted_keys } = installer.fixture.kernel;
    const { id } = await trust(acme);
    const project = {
      ...admin,
      actor: "key_1",
      admin: true,
      scope: { ...admin.scope, project_id: "proj_a" },
    };
    const operator = { ...admin, actor: "key_2", admin: false, scope: { ...admin.scope, project_id: null } };
    const body = { name: "X", public_key: generateSigningKey().public_key };
    expect((await captureRefusal(trusted_keys.trust(project, body))).code).toBe("policy.denied");
    expect((await captureRefusal(trusted_keys.trust(operator, body))).code).toBe("auth.scope");
    expect((await captureRefusal(trusted_keys.revoke(operator, id, null))).code).toBe("auth.scope");
  });

  test("refuses a private key and text that is not a key", async () => {
    for (const public_key of [acme.private_key, "hello"])
      expect((await captureRefusal(trust(acme, { public_key }))).code).toBe("request.invalid");
  });
});

describe("bindings of signed packages", () => {
  const bind = (package_version: string, caller = admin) =>
    installer.fixture.kernel.bindings.create(caller, {
      package_id: "acme/hello",
      package_version,
      export_id: "greet",
    });
  const revoke = async (key: SigningKey) => {
    const { items } = await installer.fixture.kernel.trusted_keys.list(admin, { limit: 10 });
    const { id } = items.find(({ public_key }) => public_key.trim() === key.public_key.trim())!;
    await installer.fixture.kernel.trusted_keys.revoke(admin, id, "stolen");
  };

  verifies(
    "pkg.sign",
    "does not bind a version whose key was revoked, but can return to one that was in use",
    async () => {
      await trust(acme);
      for (const version of ["1.0.0", "2.0.0"])
        await install(await createTestPackage(version, signWith(acme)));
      await bind("1.0.0");
      const [moved] = await installer.fixture.kernel.bindings.upgrade(admin, {
        package_id: "acme/hello",
        package_version: "2.0.0",
      });
      await revoke(acme);
      expect(await installer.fixture.kernel.bindings.rollback(admin, moved!.binding_id)).toMatchObject({
        package_version: "1.0.0",
      });
      const refused = { code: "signature.revoked", message: expect.stringContaining("acme/hello 2.0.0") };
      await expect(bind("2.0.0")).rejects.toMatchObject(refused);
      await installer.fixture.kernel.bindings.remove(admin, moved!.binding_id);
      await expect(bind("2.0.0")).rejects.toMatchObject(refused);
    },
  );

  verifies("pkg.sign", "keeps a package verified while one of the keys that signed it is valid", async () => {
    const next = generateSigningKey();
    await trust(acme);
    const { key_id } = await trust(next);
    await install(
      await createTestPackage("1.0.0", (identity) => [
        ...signWith(acme)(identity),
        ...signWith(next)(identity),
      ]),
    );
    await revoke(acme);
    const { items } = await installer.fixture.kernel.packages.list(admin, { limit: 10 });
    expect(items[0]!.signature).toMatchObject({ state: "verified", key_id });
    expect(await bind("1.0.0")).toMatchObject({ status: "active" });
    await revoke(next);
    await expect(bind("1.0.0")).rejects.toMatchObject({ code: "signature.revoked" });
  });

  verifies("pkg.sign", "lets only an admin leave a signed version for one without a signature", async () => {
    await trust(acme);
    await install(await createTestPackage("1.0.0", signWith(acme)));
    await bind("1.0.0");
    const { folder } = await createTestPackage("2.0.0", () => []);
    await installer.install({ kind: "folder", path: folder }, { bind: false });
    await expect(bind("2.0.0", user)).rejects.toMatchObject({
      code: "policy.denied",
      message: expect.stringContaining("is signed with the key Acme, and 2.0.0 has no valid signature"),
    });
    expect(await bind("2.0.0")).toMatchObject({ package_version: "2.0.0" });
  });
});
