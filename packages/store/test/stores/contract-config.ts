import { CONFIG_LIMITS } from "@backplane/contract";
import type { ConfigRow, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { NOW, sampleAudit, sampleEvent } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

const setting = (key: string, value: unknown = key, sealed = false): ConfigRow => ({
  key,
  value: JSON.stringify(value),
  sealed,
});

export function configCases(store: () => Store): void {
  const listKeys = async (org_id: string, prefix = "") =>
    (await store().config.list(org_id, prefix)).map((row) => row.key);

  test("writes, replaces, reads and lists settings by prefix within an org", async () => {
    const { org_id } = freshOrg();
    const { config } = store();
    const other = freshOrg().org_id;
    const rows = ["a", "a-b", "a.b", "a.b.c", "a.b.c.d", "a.b_c.d", "a.bc", "b"].map((key) => setting(key));
    await config.write(org_id, { set: rows.toReversed(), unset: [] }, NOW, {});
    await config.write(other, { set: [setting("a.b.other")], unset: [] }, NOW, {});
    const sorted = rows.map((row) => row.key).toSorted();
    expect(await listKeys(org_id)).toEqual(sorted);
    expect(await listKeys(org_id, "a.b.")).toEqual(["a.b.c", "a.b.c.d"]);
    const sealed = setting("a.b", "v1.k.n.c", true);
    await config.write(org_id, { set: [sealed], unset: [] }, NOW, {});
    expect(await config.get(org_id, "a.b")).toEqual(sealed);
    expect(await config.get(org_id, "a.b.other")).toBeNull();
    const unusual = setting("b", { text: "\u0000 ünï 🙂 ' \" \\", list: [null, 1.5, true] });
    await config.write(org_id, { set: [unusual], unset: [] }, NOW, {});
    expect(await config.get(org_id, "b")).toEqual(unusual);
  });

  test("unsets a key or everything below it, and returns the removed keys", async () => {
    const { org_id } = freshOrg();
    const { config } = store();
    const all = ["a.b", "a.b-c", "a.b.c", "a.b.d.e", "a.bc", "a.b_", "z"];
    await config.write(org_id, { set: all.map((key) => setting(key)), unset: [] }, NOW, {});
    const unset = (...unsets: string[]) => config.write(org_id, { set: [], unset: unsets }, NOW, {});
    expect(await unset("a.b.*")).toEqual(["a.b.c", "a.b.d.e"]);
    expect(await unset("a.b.*", "nothing")).toEqual([]);
    expect(await unset("a.b")).toEqual(["a.b"]);
    expect(await listKeys(org_id)).toEqual(["a.b-c", "a.b_", "a.bc", "z"]);
    const removed_keys = await config.write(org_id, { set: [setting("a.bc")], unset: ["a.*"] }, NOW, {});
    expect(removed_keys).toEqual(["a.b-c", "a.b_"]);
    expect(await listKeys(org_id)).toEqual(["a.bc", "z"]);
  });

  test("removes the sealed values of a group when its destination changes, unless the same write sets them", async () => {
    const { org_id } = freshOrg();
    const { config } = store();
    const rows = [
      setting("providers.p.base_url", "https://a.example"),
      setting("providers.p.plugin", "llm"),
      setting("providers.p.api_key", "v1.k.n.c", true),
      setting("providers.p.deep.token", "v1.k.n.c", true),
      setting("providers.q.api_key", "v1.k.n.c", true),
      setting("providers.token", "v1.k.n.c", true),
    ];
    await config.write(org_id, { set: rows, unset: [] }, NOW, {});
    const write = (set: ConfigRow[], unset: string[] = []) => config.write(org_id, { set, unset }, NOW, {});
    // Writing the same value is not a change, and other fields are not destinations.
    expect(await write([rows[0]!, setting("providers.p.model", "m")])).toEqual([]);
    const other_address = setting("providers.p.base_url", "https://b.example");
    expect(await write([other_address])).toEqual(["providers.p.api_key", "providers.p.deep.token"]);
    expect((await listKeys(org_id)).filter((key) => /token|api_key/.test(key))).toEqual([
      "providers.q.api_key",
      "providers.token",
    ]);
    const new_key = setting("providers.p.api_key", "v1.k.n.d", true);
    expect(await write([new_key, setting("providers.p.base_url", "https://c.example")])).toEqual([]);
    expect(await config.get(org_id, "providers.p.api_key")).toEqual(new_key);
    expect(await write([], ["providers.p.base_url"])).toEqual([
      "providers.p.api_key",
      "providers.p.base_url",
    ]);
    // An instance without a plugin has had no destination yet.
    await write([setting("providers.n.api_key", "v1.k.n.c", true)]);
    expect(await write([setting("providers.n.plugin", "llm")])).toEqual([]);
    expect(await write([setting("providers.n.plugin", "other")])).toEqual(["providers.n.api_key"]);
    // A write beyond the limit changes nothing, the credential included.
    await write([new_key]);
    const big = Array.from({ length: CONFIG_LIMITS.keys_per_org }, (_, n) => setting(`big.k${n}`, n));
    await expect(write([other_address, ...big])).rejects.toMatchObject({ code: "config.limit" });
    expect(await config.get(org_id, "providers.p.api_key")).toEqual(new_key);
  });

  test("writes records with a change, and none without a change", async () => {
    const scope = freshOrg();
    const { config, audit, outbox } = store();
    const records = () => ({
      audit: sampleAudit({ scope, action: "config.set" }),
      events: [sampleEvent("k", { scope })],
    });
    await config.write(scope.org_id, { set: [setting("k")], unset: [] }, NOW, records());
    await config.write(scope.org_id, { set: [], unset: ["other", "k.*"] }, NOW, records());
    expect((await audit.list(scope, {}, { limit: 9 })).items).toHaveLength(1);
    expect(await outbox.read(0, 9, scope)).toHaveLength(1);
  });

  test("rejects a change beyond the limits without writing any key, removal or record", async () => {
    const scope = freshOrg();
    const { org_id } = scope;
    const { config, audit } = store();
    const big = "x".repeat(CONFIG_LIMITS.bytes_per_org / 8);
    const rows = Array.from({ length: 7 }, (_, n) => setting(`big.k${n}`, big));
    await config.write(org_id, { set: rows, unset: [] }, NOW, {});
    const records = { audit: sampleAudit({ scope, action: "config.set" }) };
    const change = {
      set: [setting("new"), setting("big.more", big), setting("big.k0", "small")],
      unset: ["big.k1"],
    };
    await config.write(org_id, change, NOW, {});
    const rows_before = await config.list(org_id, "");
    const oversized = { set: [setting("a.first"), setting("big.k2", `${big}${big}${big}`)], unset: ["new"] };
    await expect(config.write(org_id, oversized, NOW, records)).rejects.toMatchObject({
      code: "config.limit",
      details: { limit: "bytes_per_org" },
    });
    expect(await config.list(org_id, "")).toEqual(rows_before);
    expect((await audit.list(scope, {}, { limit: 9 })).items).toEqual([]);

    const full_org = freshOrg().org_id;
    const numberedSettings = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, n) => setting(`k${from + n}`, 0));
    await config.write(
      full_org,
      { set: numberedSettings(0, CONFIG_LIMITS.keys_per_org), unset: [] },
      NOW,
      {},
    );
    await config.write(full_org, { set: numberedSettings(0, 2), unset: [] }, NOW, {});
    await expect(
      config.write(full_org, { set: [setting("one-more")], unset: [] }, NOW, {}),
    ).rejects.toMatchObject({
      code: "config.limit",
      details: { limit: "keys_per_org", max: CONFIG_LIMITS.keys_per_org },
    });
    expect(await config.write(full_org, { set: [setting("one-more")], unset: ["k7"] }, NOW, {})).toEqual([
      "k7",
    ]);
  });

  test("never shows a reader a mix of concurrent writes to the same keys", async () => {
    const { org_id } = freshOrg();
    const { config } = store();
    const keys = ["p.a", "p.b", "p.c", "p.d"];
    const writers = Array.from({ length: 20 }, (_, n) => {
      const order = n % 2 === 0 ? keys : keys.toReversed();
      return config.write(org_id, { set: order.map((key) => setting(key, n)), unset: [] }, NOW, {});
    });
    const snapshots: string[][] = [];
    let writing = true;
    const reader = (async () => {
      while (writing) {
        snapshots.push((await config.list(org_id, "p.")).map((row) => row.value));
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await Promise.all(writers).finally(() => {
      writing = false;
    });
    await reader;
    expect(snapshots.filter((values) => new Set(values).size > 1)).toEqual([]);
    expect(await listKeys(org_id)).toEqual(keys);
  });
}
