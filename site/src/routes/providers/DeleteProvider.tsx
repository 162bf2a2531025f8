import { useState } from "react";
import { Confirm } from "../../components/Dialog";
import type { Provider } from "../../generated/api";
import { useAct } from "../../services/query";

/** DeleteProvider asks before it deletes a provider; the server says what uses it, and refuses it without force. */
export function DeleteProvider({ provider: p }: { provider: Provider }) {
  const remove = useAct("delete-provider");
  const [force, setForce] = useState(false);
  return (
    <Confirm
      act="Delete"
      look="danger"
      icon="trash"
      title={`Delete provider ${p.name}?`}
      effect="Nothing is created there any more, and it is listed until an inventory finds nothing there. Applying a file that declares it takes this back."
      done={`${p.name} is deleted.`}
      run={() => remove.mutateAsync({ params: { provider: p.name, ...(force && { force }) } })}
    >
      <label className="flex items-start gap-2 text-sm">
        <input type="checkbox" className="mt-1" checked={force} onChange={(e) => setForce(e.target.checked)} />
        <span>
          Also while it is in use, or does not answer
          <span className="block text-ink-2">
            Pools on it run empty, and what it does not delete at once is given up. What is claimed stays until it is released.
          </span>
        </span>
      </label>
    </Confirm>
  );
}
