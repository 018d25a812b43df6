import type { InstallationStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { encodeBinding } from "./bindings.ts";
import { decodePackage, encodePackage } from "./packages.ts";

export function createInstallationStore(backend: Backend): InstallationStore {
  return {
    async commit({ packages, moved, created }) {
      const existing = await backend.write("commitInstallation", {
        packages: packages.map(({ row, facts }) => encodePackage(row, facts)),
        moved: moved.map(({ row, expected, facts }) => ({ ...encodeBinding(row, facts), expected })),
        created: created.map(({ row, facts }) => encodeBinding(row, facts)),
      });
      backend.notifyAppended();
      return packages.map(({ row }, index) => {
        const body = existing[index] ?? null;
        return body === null ? { row, created: true } : { row: decodePackage(body), created: false };
      });
    },
  };
}
