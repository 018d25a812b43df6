import type { Invocation } from "@backplane/contract";
import { Button, Group, Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { catalogQueries } from "../../api/catalog.ts";
import { useClient } from "../../api/services.ts";
import { SchemaForm } from "../../parts/forms/schema-form/schema-form.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { useRerun } from "./rerun.ts";

/** Calls the export again with an edited input. The input is edited as JSON if the catalog has no schema for it. */
export function EditAndRun({ call, onClose }: { call: Invocation; onClose: () => void }) {
  const [input, setInput] = useState(call.input);
  const rerun = useRerun(call);
  const tools = useQuery(catalogQueries.list(useClient(), { all: true }));
  const tool = tools.data?.find(
    ({ name, binding_id }) => binding_id === call.binding_id && name === call.export_id,
  );
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Call ${call.export_id}`}
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {tools.isPending && <ListSkeleton />}
      {tools.isError && <ErrorView error={tools.error} onRetry={() => void tools.refetch()} />}
      {tools.isSuccess && (
        <SchemaForm
          label="Input"
          schema={tool?.input_schema ?? null}
          value={input}
          onChange={setInput}
          model={tool}
        />
      )}
      <Group justify="flex-end" mt="lg" gap="xs">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <Button loading={rerun.isPending} onClick={() => rerun.mutate(input, { onSuccess: onClose })}>
          Run
        </Button>
      </Group>
    </Modal>
  );
}
