import { expect, test } from "vitest";
import {
  DEFAULT_UPGRADE,
  type UpgradeChoices,
  upgradeCommand,
  upgradeRequest,
} from "../../../src/pages/plugins/upgrade-request.ts";
import { undocumentedFlags } from "../../support/documented-flags.ts";

const CHOICES: UpgradeChoices = {
  ...DEFAULT_UPGRADE,
  package_id: "acme/desk",
  package_version: "2.0.0",
  org_wide: false,
};

test("shows no flags for an upgrade with the default choices", () => {
  expect(upgradeCommand(CHOICES)).toEqual(["backplane", "plugin", "upgrade", "acme/desk@2.0.0"]);
  expect(upgradeRequest(CHOICES)).toEqual({
    package_id: "acme/desk",
    package_version: "2.0.0",
    percent: 100,
    new_permissions: "hold",
    trial: { seconds: 60 },
  });
});

test("shows a flag for every choice that the request contains", () => {
  const choices: UpgradeChoices = {
    ...CHOICES,
    percent: 20,
    new_permissions: "grant",
    trial_seconds: 0,
    org_wide: true,
  };
  const command = upgradeCommand(choices);
  expect(undocumentedFlags(command)).toEqual([]);
  expect(command.slice(4)).toEqual(["--grant-permissions", "--percent", "20", "--trial", "0", "--org-wide"]);
  expect(upgradeRequest(choices)).toMatchObject({
    percent: 20,
    new_permissions: "grant",
    trial: { seconds: 0 },
    org_wide: true,
  });
  expect(upgradeCommand({ ...CHOICES, new_permissions: "withhold" })).toContain("--withhold-permissions");
});
