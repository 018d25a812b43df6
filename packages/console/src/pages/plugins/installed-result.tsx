/** Shows the installed packages, their bindings and the next steps. */
import type { Binding, Installation } from "@backplane/contract";
import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Card } from "../../parts/layout/card.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import { BindingBadge } from "../../parts/values/plugin-badges.tsx";
import type { InstallResult } from "./install-page.tsx";

export interface InstalledResultProps {
  installed: InstallResult;
  /** The ids of the packages that were not bound and of which another version was already installed. */
  upgrades: readonly string[];
  onInstallAnother: () => void;
}

export function InstalledResult({ installed, upgrades, onInstallAnother }: InstalledResultProps) {
  return (
    <>
      <PageHeader
        title="Installed"
        actions={
          <Button variant="default" onClick={onInstallAnother}>
            Install another
          </Button>
        }
      />
      {installed.kind === "linked" && (
        <Card title="Linked folder">
          <p className={layout.text}>
            {installed.folder.path} is loaded as {installed.folder.package_id}{" "}
            {installed.folder.package_version}, and again when a file is saved.{" "}
            <Link to="/settings" search={{ view: "folders" }}>
              Show linked folders
            </Link>
          </p>
        </Card>
      )}
      {installed.kind === "kernel" && (
        <Card title="Kernel plugins">
          <p className={layout.text}>
            Loaded: {installed.plugins.map(({ name, version }) => `${name} ${version}`).join(", ")}.{" "}
            <Link to="/plugins" search={{ view: "kernel" }}>
              Configure
            </Link>
          </p>
        </Card>
      )}
      {installed.kind !== "kernel" && installed.kind !== "linked" && (
        <InstalledPackages installed={installed} upgrades={upgrades} />
      )}
    </>
  );
}

const CHANGE_LABELS: Record<Installation["bindings"][number]["change"], string> = {
  created: "created",
  moved: "changed to this version",
  unchanged: "unchanged",
};

function InstalledPackages({
  installed,
  upgrades,
}: {
  installed: Installation;
  upgrades: readonly string[];
}) {
  const { packages, bindings, left_out, notes } = installed;
  const incomplete = bindings.filter(({ binding }) => binding.unbound_slots.length > 0);
  return (
    <div className={layout.stack}>
      {incomplete.map(({ binding }) => (
        <Notice
          key={binding.binding_id}
          tone="warn"
          title={inactiveTitle(binding)}
          actions={
            <Button
              component={Link}
              to="/bindings/$id"
              params={{ id: binding.binding_id } as never}
              size="xs"
            >
              Bind the secret
            </Button>
          }
        />
      ))}
      {left_out.map(({ kind, name, reason, fix }) => (
        <Notice key={name} tone="warn" title={`The ${kind} ${name} was left out`}>
          <p>
            {reason} {fix}
          </p>
        </Notice>
      ))}
      <Card title="Packages" flush>
        <ul className={layout.plainList}>
          {packages.map(({ package: one, created }) => (
            <li key={one.id} className={layout.listItem}>
              <div className={layout.between}>
                <span>
                  <RowLink to="/plugins/$id" params={{ id: one.id }}>
                    {one.manifest.name}
                  </RowLink>{" "}
                  {one.package_id} {one.version}
                  {created ? "" : " (was already installed)"}
                </span>
                {upgrades.includes(one.package_id) && (
                  <Button component={Link} to="/upgrades/$id" params={{ id: one.id } as never} size="xs">
                    Review upgrade
                  </Button>
                )}
              </div>
            </li>
          ))}
        </ul>
      </Card>
      {bindings.length > 0 && (
        <Card title="Bindings" flush>
          <ul className={layout.plainList}>
            {bindings.map(({ binding, change }) => (
              <li key={binding.binding_id} className={layout.listItem}>
                <div className={layout.between}>
                  <span>
                    <RowLink to="/bindings/$id" params={{ id: binding.binding_id }}>
                      {binding.export_id === "*" ? "All tools" : binding.export_id}
                    </RowLink>{" "}
                    {binding.package_id} ({CHANGE_LABELS[change]})
                  </span>
                  <BindingBadge binding={binding} />
                </div>
              </li>
            ))}
          </ul>
        </Card>
      )}
      {notes.map((note) => (
        <p key={note} className={layout.dimmed}>
          {note}
        </p>
      ))}
    </div>
  );
}

function inactiveTitle({ export_id, package_id, unbound_slots }: Binding): string {
  const name = export_id === "*" ? package_id : export_id;
  return `${name} is inactive until ${unbound_slots.join(", ")} ${unbound_slots.length === 1 ? "has" : "have"} a secret`;
}
