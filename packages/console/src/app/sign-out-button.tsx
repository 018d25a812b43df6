import { ActionIcon } from "@mantine/core";
import { useServices } from "../api/services.ts";
import { useToast } from "../parts/actions/toast.tsx";
import { Icon } from "../parts/layout/icon.tsx";

export function SignOutButton() {
  const { live, queries } = useServices();
  const toast = useToast();
  const signOut = async () => {
    try {
      await fetch("/v1/logout", { method: "POST" });
      queries.clear();
      live.recheck();
    } catch (error) {
      toast.fail(error);
    }
  };
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      aria-label="Sign out"
      title="Sign out"
      onClick={() => void signOut()}
    >
      <Icon name="signOut" />
    </ActionIcon>
  );
}
