/** The page on which a person chooses an export, configures its binding and assigns secrets. */
import {
  type Binding,
  type BindingCreate,
  type BindingPolicy,
  isSelfDescribing,
  type Json,
  type JsonObject,
  type Package,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import { Button, Checkbox, Select } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { packageQueries } from "../../api/packages.ts";
import { useClient, useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { SchemaForm } from "../../parts/forms/schema-form/schema-form.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { PermissionList } from "../../parts/values/permission-list.tsx";
import { bindCommand } from "./bind-command.ts";
import { findConfigSchema, listSlotNames } from "./binding-schema.ts";
import { PolicyFields } from "./policy-fields.tsx";
import { SecretSlots } from "./secret-slots.tsx";

export function NewBindingPage() {
  const search = useSearch({ from: "/bindings/new" });
  const setFilters = useSetFilters<typeof search>();
  const packages = useQuery(packageQueries.all(useClient()));
  if (packages.isError && packages.data === undefined)
    return (
      <>
        <PageHeader title="New binding" />
        <ErrorView error={packages.error} onRetry={() => void packages.refetch()} />
      </>
    );
  if (packages.isPending) return <ListSkeleton />;
  const pkg = packages.data.find(({ id }) => id === search.package);
  const exports = pkg === undefined ? [] : exportsOf(pkg);
  const chosen = exports.find(({ value }) => value === search.export)?.value ?? exports[0]?.value;
  return (
    <>
      <PageHeader
        title="New binding"
        lead="Makes an export callable, with exactly the settings on this page."
      />
      {packages.data.length === 0 ? (
        <EmptyView
          icon="plugin"
          action={
            <Button component={Link} to="/plugins/install">
              Install a plugin
            </Button>
          }
        >
          Install a package first: there is nothing to bind.
        </EmptyView>
      ) : (
        <div className={layout.stack}>
          <Card title="Export">
            <div className={layout.columns}>
              <Select
                label="Package"
                searchable
                allowDeselect={false}
                data={packages.data.map(({ id, package_id, version }) => ({
                  value: id,
                  label: `${package_id} ${version}`,
                }))}
                value={pkg?.id ?? null}
                onChange={(id) => setFilters({ package: id ?? undefined, export: undefined })}
              />
              <Select
                label="Export"
                allowDeselect={false}
                disabled={pkg === undefined}
                data={exports}
                value={chosen ?? null}
                onChange={(value) => setFilters({ export: value ?? undefined })}
              />
            </div>
          </Card>
          {pkg !== undefined && chosen !== undefined && (
            <BindingDraftForm key={`${pkg.id} ${chosen}`} pkg={pkg} export_id={chosen} />
          )}
        </div>
      )}
    </>
  );
}

/**
 * A package that describes itself is bound as a whole; the exports of any other package can also be bound one by one.
 */
function exportsOf({ manifest: { runtime, exports } }: Package): { value: string; label: string }[] {
  const whole = { value: WHOLE_PACKAGE, label: "All tools" };
  if (isSelfDescribing(runtime.protocol)) return [whole];
  const single = exports.map(({ id, kind }) => ({ value: id, label: `${id} (${kind})` }));
  return exports.filter(({ kind }) => kind === "tool").length > 1 ? [...single, whole] : single;
}

function BindingDraftForm({ pkg, export_id }: { pkg: Package; export_id: string }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const navigate = useNavigate();
  const [config, setConfig] = useState<Json>({});
  const [secrets, setSecrets] = useState<Record<string, string>>({});
  const [policy, setPolicy] = useState<BindingPolicy>({});
  const [org_wide, setOrgWide] = useState(false);
  const schema = findConfigSchema(pkg, export_id);
  const slots = listSlotNames(pkg, export_id);
  const unbound_slots = slots.filter((slot) => secrets[slot] === undefined);
  const item = pkg.manifest.exports.find(({ id }) => id === export_id);
  const permissions = item?.permissions ?? pkg.manifest.runtime.permissions;
  const binding: BindingCreate = {
    package_id: pkg.package_id,
    package_version: pkg.version,
    export_id,
    config: config as JsonObject,
    secrets,
    policy,
    ...(org_wide ? { org_wide: true } : {}),
  };
  const create = useMutation({
    mutationFn: (): Promise<Binding> => client.bindings.create(binding),
    onSuccess: async ({ binding_id, status }) => {
      toast.show({
        tone: "good",
        title: status === "active" ? "The binding is active and can be called." : "The binding is inactive.",
      });
      await Promise.all(
        ["bindings", "catalog", "packages"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })),
      );
      await navigate({ to: "/bindings/$id", params: { id: binding_id } });
    },
  });
  return (
    <>
      {permissions !== undefined && (
        <Card title="What the plugin will be able to do">
          <PermissionList permissions={permissions} />
        </Card>
      )}
      {schema !== null && (
        <Card title="Configuration">
          <SchemaForm
            label="Configuration"
            named_secrets
            schema={schema}
            value={config}
            onChange={setConfig}
          />
        </Card>
      )}
      {slots.length > 0 && (
        <Card title="Secrets">
          <SecretSlots slots={slots} value={secrets} onChange={setSecrets} pkg={pkg} />
        </Card>
      )}
      <Card title="Policy">
        <details>
          <summary>Approval, isolation, timeouts, domains, folders</summary>
          <PolicyFields value={policy} onChange={setPolicy} protocol={pkg?.manifest.runtime.protocol} />
        </details>
      </Card>
      {unbound_slots.length > 0 && (
        <Notice
          tone="warn"
          title={`The binding will stay inactive until ${unbound_slots.join(", ")} ${unbound_slots.length === 1 ? "has" : "have"} a secret`}
        />
      )}
      {create.error !== null && <ErrorView error={create.error} />}
      <Card title="Bind">
        <div className={layout.form}>
          <Checkbox
            label="For the whole organization instead of one project"
            checked={org_wide}
            onChange={({ currentTarget }) => setOrgWide(currentTarget.checked)}
          />
          <div className={layout.row}>
            <Button loading={create.isPending} onClick={() => create.mutate()}>
              Bind
            </Button>
          </div>
          <EquivalentCommand binding={binding} />
        </div>
      </Card>
    </>
  );
}

function EquivalentCommand({ binding }: { binding: BindingCreate }) {
  const { words, missing } = bindCommand(binding);
  if (missing.length === 0) return <CliCommand command={shellCommand(...words)} />;
  return (
    <p className={layout.dimmed}>
      No command creates the same binding: the command line cannot set {missing.join(", ")} of the policy.
    </p>
  );
}
