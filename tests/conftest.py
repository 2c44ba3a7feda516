"""What every part of the suite may use: a tiny random model made on the spot, the small real one, and a PostgreSQL."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from xdist.scheduler import LoadFileScheduling

from pipeline.inference.checkpoint import Checkpoint, resolve_checkpoint
from pipeline.inference.loading import load_model, save_tokenizer
from pipeline.inference.model import LanguageModel
from pipeline.settings import Settings
from pipeline.store.database import open_database
from tests.postgres_server import PostgresServer, emptied, new_database

#: What takes longest, one after the other, begins first.
FIRST = (
    "tests/fleet/",
    "tests/test_readme.py",
    "tests/workers/broker/test_celery_worker.py",
    "tests/test_code.py",
    "tests/pipeline/inference/kernels/",
    "tests/journey/",
)
#: The fleets, and those whose commands begin as copies of one process (warm.py).
TOGETHER = {
    "fleets": ("tests/fleet/",),
    "copies": ("tests/test_readme.py", "tests/journey/test_durability.py", "tests/journey/test_prefixes.py"),
}
SPECIAL = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer(chat_template: str | None = CHAT_TEMPLATE) -> PreTrainedTokenizerFast:
    """A byte a token: any text encodes, and every id means something."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={byte: place for place, byte in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=SPECIAL[0], eos_token=SPECIAL[2])
    wrapped.chat_template = chat_template
    return wrapped


class Schedule(LoadFileScheduling):
    """One process has a file to itself, and all files that share what takes long to start."""

    def _split_scope(self, nodeid: str) -> str:
        together = next((name for name, files in TOGETHER.items() if nodeid.startswith(files)), None)
        return together or str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Schedule:
    return Schedule(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((n for n, first in enumerate(FIRST) if item.nodeid.startswith(first)), len(FIRST)))


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tiny models gain nothing from more, and lose much where other processes want the cores."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that holds a random Llama of 30,000 weights with a context of 512 bytes, and its tokenizer."""
    directory = tmp_path_factory.mktemp("tiny-llama")
    tokenizer = byte_tokenizer()
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def small_checkpoint() -> Checkpoint:
    return resolve_checkpoint("smollm2-135m")


@pytest.fixture(scope="session")
def small_tokenizer(small_checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real model's tokenizer as a directory."""
    return save_tokenizer(small_checkpoint, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def small_model(small_checkpoint: Checkpoint) -> LanguageModel:
    return load_model(small_checkpoint, "cpu")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of one that takes new databases."""
    if named := os.environ.get("PIPELINE_TEST_DATABASE_URL"):
        yield named
        return
    server = PostgresServer()
    server.start()
    yield server.url
    server.remove()


@pytest.fixture
def postgresql_url(postgres_server: str) -> Iterator[str]:
    """Of an empty database, gone after the test."""
    with new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def shared_postgresql_url(postgres_server: str) -> Iterator[str]:
    with new_database(postgres_server) as url:
        open_database(Settings(database_url=url)).dispose()
        yield url


@pytest.fixture
def ready_postgresql_url(shared_postgresql_url: str) -> Iterator[str]:
    """Of a database with all our tables and nothing in them, which take long to make for each test."""
    yield shared_postgresql_url
    emptied(shared_postgresql_url)


@pytest.fixture(scope="session")
def ready_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all our tables and nothing in them, to be copied."""
    path = tmp_path_factory.mktemp("ready") / "pipeline.db"
    open_database(Settings(database_url=f"sqlite:///{path}")).dispose()
    return path


@pytest.fixture
def ready_sqlite_url(ready_sqlite: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(ready_sqlite, tmp_path)}"


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server that the test may stop, kill and start."""
    server = PostgresServer()
    server.start()
    yield server
    server.remove()
