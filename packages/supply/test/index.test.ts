import { expect, test } from "vitest";
import * as supply from "../src/index.ts";

test("what the room offers is a decision", () => {
  expect(Object.keys(supply).sort()).toEqual([
    "MANIFEST_FILE",
    "UNPACK_LIMITS",
    "createPackageImporter",
    "createPluginSources",
    "createSchemas",
    "createWorkspaceFolders",
    "openArtifactStore",
    "openContentStore",
    "packFolder",
    "readManifest",
    "sideSpec",
    "treeDigest",
    "unpackArchive",
    "validateInstallSource",
  ]);
});
