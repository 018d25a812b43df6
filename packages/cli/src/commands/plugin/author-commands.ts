/** The commands of `plugin` for authors: from a new plugin to a published package. */
import { SIGNATURE_FILE } from "@backplane/contract";
import type { Command } from "commander";
import type { ToAction } from "../../context/action.ts";
import { devPlugin } from "./dev-plugin.ts";
import { initPlugin } from "./init-plugin.ts";
import { packPlugin } from "./pack-plugin.ts";
import { pullPlugin, pushPlugin } from "./registry-commands.ts";
import { signPlugin } from "./sign-plugin.ts";
import { testPlugin } from "./test-plugin.ts";

export function addAuthorCommands(plugin: Command, toAction: ToAction): void {
  plugin
    .command("init [name]")
    .description("Write a new, working plugin into a new folder.")
    .option("--lang <language>", "ts, py or sh (default: ts)")
    .option("--kind <kind>", "tool, hook, compactor or harness (default: tool)")
    .option("--dir <folder>", "the folder to write to (default: the name)")
    .action(toAction(initPlugin));
  plugin
    .command("test [folder]")
    .description(
      "Check a plugin against the rules of its protocol and run the cases in tests/*.json, in the sandbox and without a gateway. Exit code 7 if a rule is broken.",
    )
    .option("--junit <file>", "also write the results as JUnit XML")
    .action(toAction(testPlugin));
  plugin
    .command("dev [folder]")
    .description(
      "Link a folder to the running gateway until Ctrl-C: each save is loaded, and the frames of its calls are shown. If a new version does not start, the previous one stays in use.",
    )
    .action(toAction(devPlugin));
  plugin
    .command("pack <folder>")
    .description("Pack a folder into an archive.")
    .option("-o, --out <file>", "output file (default: FOLDER.tgz, or FOLDER.oci with --oci)")
    .option("--oci", "write an OCI image layout instead: a folder, or a tar if the name ends in .tar")
    .action(toAction(packPlugin));
  plugin
    .command("sign <source>")
    .description(
      `Sign a folder, an archive or an OCI layout; writes ${SIGNATURE_FILE} into the folder or next to the file.`,
    )
    .option("--key <file>", "private key, as `backplane key generate` writes it (default: $VAI_SIGNING_KEY)")
    .option("-o, --out <file>", "where the signature is written")
    .action(toAction(signPlugin));
  plugin
    .command("push <source> <reference>")
    .description("Upload a folder, an archive or an OCI layout to a registry, as oci://HOST/NAME:TAG.")
    .option("--signature <file>", "upload this signature with the package (default: the one in the folder)")
    .option("--accept-source", "accept a manifest that declares another repository as its source")
    .option("--insecure", "connect to the registry without TLS; not needed for loopback")
    .addHelpText(
      "after",
      "\nLogins are those of `docker login` (~/.docker/config.json) and `podman login` ($REGISTRY_AUTH_FILE, or\n" +
        "$XDG_RUNTIME_DIR/containers/auth.json), with their credential helpers.\n",
    )
    .action(toAction(pushPlugin));
  plugin
    .command("pull <reference>")
    .description("Download a package from a registry as an OCI layout, without installing it.")
    .option("-o, --out <path>", "a new folder, a .tar of the layout, or a .tgz of the package")
    .option("--insecure", "connect to the registry without TLS; not needed for loopback")
    .action(toAction(pullPlugin));
}
