import type { Caller } from "@backplane/ports";
import { admin, createTestKernel, orgUser, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { codeOfRejected } from "../../../agent/test/plugins/test-plugins.ts";

const other_project: Caller = {
  ...user,
  actor: "key_2",
  scope: { org_id: "org_local", project_id: "proj_2" },
};
const project_admin: Caller = { ...user, role: "owner", scopes: ["admin"], admin: true };

verifies(
  ["sec.scope-of-change", "sec.credential-destination"],
  "does not let a project's credential read, replace or remove secrets of other projects, or change the org's",
  async () => {
    const { kernel } = await createTestKernel();
    const { secrets } = kernel;
    await secrets.put(orgUser, "shared", "of-the-whole-org");
    await secrets.put(other_project, "theirs", "of-the-neighbor");
    for (const caller of [user, project_admin]) {
      for (const name of ["shared", "theirs"]) {
        expect(await codeOfRejected(secrets.put(caller, name, "mine now")), name).toBe("policy.denied");
        expect(await codeOfRejected(secrets.remove(caller, name)), name).toBe("policy.denied");
      }
      expect(await codeOfRejected(secrets.get(caller, "theirs"))).toBe("secret.not_found");
      expect((await secrets.list(caller, { limit: 9 })).items.map(({ name }) => name)).toEqual(["shared"]);
    }
    expect((await secrets.list(orgUser, { limit: 9 })).items.map(({ version }) => version)).toEqual([1, 1]);
    expect(await secrets.put(user, "mine", "first-value")).toMatchObject({ project_id: "proj_default" });
    expect(await secrets.put(user, "mine", "second-value")).toMatchObject({ version: 2 });
    expect(await secrets.put(admin, "mine", "third-value")).toMatchObject({ project_id: "proj_default" });
    await secrets.remove(user, "mine");
    await secrets.remove(orgUser, "theirs");
  },
);
