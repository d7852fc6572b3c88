"""The queue in which gradients are summed beside the backward pass: order, waiting, errors; on CPUs and on a GPU."""

from threading import Event, current_thread, main_thread

import pytest
import torch

from hpcai.train.gradient_queue import CudaQueue, HostQueue, StagedQueue

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: ITS QUEUES OF GRADIENTS NOT RUN")


def test_sums_run_in_order_in_a_thread_while_the_caller_goes_on() -> None:
    queue, released, order = HostQueue(), Event(), []

    def work(vector: torch.Tensor) -> None:
        assert current_thread() is not main_thread()
        released.wait()
        order.append(int(vector[0]))
        vector.add_(1)

    futures = [queue.submit(torch.tensor([float(number)]), work) for number in range(5)]
    assert not any(future.done() for future in futures)
    released.set()
    assert [future.wait().item() for future in futures] == [1, 2, 3, 4, 5]
    assert order == [0, 1, 2, 3, 4]
    queue.check()


def test_an_error_completes_the_future_and_is_raised_by_the_check() -> None:
    queue = HostQueue()

    def broken(vector: torch.Tensor) -> None:
        raise RuntimeError("connection lost")

    queue.submit(torch.zeros(1), broken).wait()
    with pytest.raises(RuntimeError, match="connection lost"):
        queue.check()


@NO_GPU
@pytest.mark.parametrize("kind", [CudaQueue, StagedQueue])
def test_a_gpu_computes_before_and_after_the_sum(kind: type[CudaQueue] | type[StagedQueue]) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    queue, matrix = kind(device), torch.full((4096, 4096), 1 / 4096, device=device)
    for number in range(4):
        product = matrix @ matrix @ matrix  # takes a while
        vector = product[0].clone() * number
        total = queue.submit(vector, lambda part: part.mul_(2)).wait()
        assert torch.allclose(total, torch.full_like(total, 2 * number / 4096))
