import { expect, test } from "vitest";
import { choiceFlags, choiceSettings } from "../../../src/pages/plugins/install-options.tsx";

test("sends and shows only the options that apply to the kind of source", () => {
  const choices = {
    allow_scripts: ["esbuild"],
    allow_builds: ["numpy"],
    accept_source: true,
    allow_downgrade: true,
    editable: true,
  };
  expect(choiceSettings("npm", choices)).toEqual({ allow_scripts: ["esbuild"] });
  expect(choiceSettings("pypi", choices)).toEqual({ allow_builds: ["numpy"] });
  expect(choiceSettings("oci", choices)).toEqual({ accept_source: true, allow_downgrade: true });
  expect(choiceSettings("folder", choices)).toEqual({ allow_downgrade: true });
  expect(choiceFlags("pypi", choices)).toEqual(["--allow-build", "numpy"]);
  expect(choiceFlags("folder", choices)).toEqual(["--allow-downgrade", "--editable"]);
});
