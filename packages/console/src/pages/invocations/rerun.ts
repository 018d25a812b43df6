import type { Invocation, Json } from "@backplane/contract";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useClient } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";

/** Calls the same export of the same binding and opens the new call. It is admitted again, with the current policy. */
export function useRerun({ binding_id, export_id, session_id }: Invocation) {
  const client = useClient();
  const navigate = useNavigate();
  const toast = useToast();
  return useMutation({
    mutationFn: (input: Json) =>
      client.invocations.invoke({
        binding_id,
        export_id,
        input,
        ...(session_id === null ? {} : { session_id }),
      }),
    onSuccess: ({ id }) => navigate({ to: "/invocations/$id", params: { id } }),
    onError: toast.fail,
  });
}
