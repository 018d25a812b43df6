import type { SealedRow, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { NOW } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

export function sealedCases(store: () => Store): void {
  /** Lists only the values of these orgs, because other cases share the database. */
  async function listAll(
    kind: SealedRow["kind"],
    prefix: string,
    orgs: string[],
    step = 2,
  ): Promise<SealedRow[]> {
    const sealed_rows: SealedRow[] = [];
    let after = { org_id: "", name: "" };
    for (;;) {
      const rows = await store().sealed.list(kind, prefix, after, step);
      sealed_rows.push(...rows.filter(({ org_id }) => orgs.includes(org_id)));
      if (rows.length < step) return sealed_rows;
      after = rows.at(-1)!;
    }
  }

  test("lists the sealed values of all orgs in pages and replaces only unchanged ones", async () => {
    const { secrets, config, sealed } = store();
    const orgs = [freshOrg().org_id, freshOrg().org_id].toSorted();
    for (const org_id of orgs) {
      for (const name of ["b", "a", "c"]) {
        await secrets.put({ org_id, name, ciphertext: `v1.k1.${name}`, last4: "****" }, NOW, {});
      }
      const set = [
        { key: "x.api_key", value: "v1.k1.x", sealed: true },
        { key: "x.model", value: '"v1.k1.plain"', sealed: false },
      ];
      await config.write(org_id, { set, unset: [] }, NOW, {});
    }
    const rows = await listAll("secret", "v1.k2.", orgs);
    expect(rows.map(({ org_id, name }) => [org_id, name])).toEqual(
      orgs.flatMap((org_id) => ["a", "b", "c"].map((name) => [org_id, name])),
    );
    expect(await listAll("secret", "v1.k1.", orgs)).toEqual([]);
    const values = await listAll("config", "v1.k2.", orgs);
    expect(values.map(({ name }) => name)).toEqual(["x.api_key", "x.api_key"]);

    // A new value is stored between the list and the replacement.
    const [first] = rows;
    await secrets.put({ org_id: orgs[0]!, name: "a", ciphertext: "v1.k2.newer", last4: "****" }, NOW, {});
    const changes = [...rows, ...values].map((row) => ({
      row,
      ciphertext: row.ciphertext.replace("v1.k1.", "v1.k2."),
    }));
    expect(await sealed.replace(changes)).toBe(changes.length - 1);
    expect((await secrets.getSealed(first!.org_id, "a"))?.ciphertext).toBe("v1.k2.newer");
    expect(await secrets.get(orgs[1]!, "a")).toMatchObject({ version: 1, updated_at: NOW });
    expect(await config.get(orgs[1]!, "x.api_key")).toMatchObject({ value: "v1.k2.x", sealed: true });
    expect(await config.get(orgs[1]!, "x.model")).toMatchObject({ value: '"v1.k1.plain"', sealed: false });
    for (const kind of ["secret", "config"] as const) expect(await listAll(kind, "v1.k2.", orgs)).toEqual([]);
  });
}
